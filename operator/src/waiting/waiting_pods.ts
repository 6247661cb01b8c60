import { type EventRecorder, kinds, type Pod, podVolumes, runController, watch } from '@hearth/common/kubernetes';
import type { Dataset } from '@hearth/common/resources';
import { Interests, type Source } from '../kubernetes/index.ts';
import { type ControllerParts, findCondition, type Reconciler, reconcileKey } from '../reconciler/index.ts';

/** A bound pod without a started container, whose inline volumes name Datasets. */
export interface AwaitingPod {
  namespace: string;
  name: string;
  uid: string;
  /** Unique names of Datasets in the pod's namespace. */
  datasets: readonly string[];
}

/** Undefined when the pod waits for no Dataset. Waiting claims have their own events, and keep their pods unbound. */
export function awaitingPod(pod: Pod): AwaitingPod | undefined {
  const { metadata, spec, status } = pod;
  if (!spec?.nodeName || status?.phase !== 'Pending' || metadata?.deletionTimestamp !== undefined) return undefined;
  const containers = [...(status.initContainerStatuses ?? []), ...(status.containerStatuses ?? [])];
  if (containers.some(({ state }) => state?.running !== undefined || state?.terminated !== undefined)) return undefined;
  const names = podVolumes(pod).flatMap((one) => (one.kind === 'dataset' ? [one.dataset.name] : []));
  if (names.length === 0) return undefined;
  const { namespace = '', name = '', uid = '' } = metadata ?? {};
  return { namespace, name, uid, datasets: [...new Set(names)].sort() };
}

/** Room for the Dataset's message in an event. */
const longestQuote = 768;

export type ObservedDatasets = readonly { name: string; dataset: Dataset | undefined }[];

export type Report = { reason: 'DatasetNotReady' | 'DatasetNotFound'; message: string };

export interface WaitingPodsParts {
  datasets: Pick<Source<Dataset>, 'get'>;
  events: Pick<EventRecorder, 'eventFor'>;
}

/**
 * Reports to a pending pod why its Datasets are not ready, in the words of the Dataset: agents, and so the kubelet's
 * events, do not know about Secrets. Each pod gets each sentence once.
 */
export class WaitingPods implements Reconciler<AwaitingPod, ObservedDatasets, Report> {
  readonly #options: WaitingPodsParts;
  readonly #reported = new Map<string, Set<string>>();

  constructor(options: WaitingPodsParts) {
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

  forget(uid: string): void {
    this.#reported.delete(uid);
  }
}

/** Undefined when the Dataset is ready, or becomes ready by itself. */
function reportOf(namespace: string, name: string, dataset: Dataset | undefined): Report | undefined {
  if (dataset === undefined) {
    const message = `There is no Dataset ${name} in namespace ${namespace}: create it, or correct the attribute dataset of the pod's volume`;
    return { reason: 'DatasetNotFound', message };
  }
  const ready = findCondition(dataset.status?.conditions, 'Ready');
  if (ready === undefined || ready.status === 'True' || ready.reason === 'Listing') return undefined;
  const quote = ready.message.length > longestQuote ? `${ready.message.slice(0, longestQuote)}...` : ready.message;
  const message = `Dataset ${name} is not ready (${ready.reason}): ${quote}; kubectl describe dataset -n ${namespace} ${name} says more`;
  return { reason: 'DatasetNotReady', message };
}

/** A Dataset created together with the pod should appear within this time, ms. */
const gatherMs = 2_000;

export async function runWaitingController(
  options: Pick<ControllerParts, 'datasets' | 'events' | 'logger'> & { pods: Source<AwaitingPod> },
  signal: AbortSignal,
): Promise<void> {
  const { pods, datasets, logger } = options;
  const reconciler = new WaitingPods(options);
  const interests = new Interests();
  await runController({
    name: 'waiting-pods',
    workers: 2,
    watches: [
      watch(
        pods,
        (key, before, after) => {
          interests.set(key, awaitedBy(after));
          if (before !== undefined && before.uid !== after?.uid) reconciler.forget(before.uid);
          return after === undefined ? [] : [key];
        },
        gatherMs,
      ),
      watch(datasets, (key, before, after) => (readinessOf(before) === readinessOf(after) ? [] : interests.of(key))),
    ],
    first: () => {
      for (const key of pods.keys()) interests.set(key, awaitedBy(pods.get(key)));
      return pods.keys();
    },
    reconcile: reconcileKey(reconciler, (key) => pods.get(key)),
    logger,
    signal,
  });
}

function awaitedBy(pod: AwaitingPod | undefined): ReadonlySet<string> {
  return new Set(pod?.datasets.map((name) => `${pod.namespace}/${name}`));
}

function readinessOf(dataset: Dataset | undefined): string {
  const ready = findCondition(dataset?.status?.conditions, 'Ready');
  return JSON.stringify([dataset === undefined, ready?.status, ready?.reason, ready?.message]);
}
