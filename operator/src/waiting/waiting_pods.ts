import { type EventRecorder, kinds } from '@hearth/common/kubernetes';
import type { Dataset } from '@hearth/common/resources';
import type { Source } from '../kubernetes/index.ts';
import { findCondition, type Reconciler } from '../reconciler/index.ts';
import type { AwaitingPod } from './awaiting_pod.ts';

export interface WaitingPodsOptions {
  datasets: Pick<Source<Dataset>, 'get'>;
  events: Pick<EventRecorder, 'eventFor'>;
}

/** Of a Dataset's own message: the event has room for the sentence around it. */
const longestQuote = 768;

export type ObservedDatasets = readonly { name: string; dataset: Dataset | undefined }[];

/** An event of the pod. */
export interface Report {
  reason: 'DatasetNotReady' | 'DatasetNotFound';
  message: string;
}

/**
 * Tells a pod that cannot start why its Datasets are not ready, in the words of the Dataset: an agent, and so the event of
 * the kubelet, does not know of a Secret that may not be read. Each sentence is reported once to each pod.
 */
export class WaitingPods implements Reconciler<AwaitingPod, ObservedDatasets, Report> {
  readonly #options: WaitingPodsOptions;
  /** Sentences by the uid of the pod. */
  readonly #reported = new Map<string, Set<string>>();

  constructor(options: WaitingPodsOptions) {
    this.#options = options;
  }

  async observe({ namespace, datasets }: AwaitingPod): Promise<ObservedDatasets> {
    return datasets.map((name) => ({ name, dataset: this.#options.datasets.get(`${namespace}/${name}`) }));
  }

  plan({ namespace, uid }: AwaitingPod, observed: ObservedDatasets): Report[] {
    const reports = observed.flatMap(({ name, dataset }) => reportOf(namespace, name, dataset) ?? []);
    return reports.filter(({ message }) => this.#reported.get(uid)?.has(message) !== true);
  }

  async apply({ reason, message }: Report, { namespace, name, uid }: AwaitingPod): Promise<void> {
    const object = { metadata: { namespace, name, uid } };
    this.#options.events.eventFor(kinds.Pod, object, 'Warning', reason, message);
    this.#reported.set(uid, (this.#reported.get(uid) ?? new Set()).add(message));
  }

  /** The pod waits no more. */
  forget(uid: string): void {
    this.#reported.delete(uid);
  }
}

/** Undefined: the Dataset is ready, or on its way there by itself. */
function reportOf(namespace: string, name: string, dataset: Dataset | undefined): Report | undefined {
  if (dataset === undefined) {
    const message = `There is no Dataset ${name} in namespace ${namespace}: create it, or correct the attribute dataset of the pod's volume`;
    return { reason: 'DatasetNotFound', message };
  }
  const ready = findCondition(dataset.status?.conditions, 'Ready');
  if (ready === undefined || ready.status === 'True' || ready.reason === 'Listing') return undefined;
  const said = ready.message.length > longestQuote ? `${ready.message.slice(0, longestQuote)}...` : ready.message;
  const message = `Dataset ${name} is not ready (${ready.reason}): ${said}; kubectl describe dataset -n ${namespace} ${name} says more`;
  return { reason: 'DatasetNotReady', message };
}
