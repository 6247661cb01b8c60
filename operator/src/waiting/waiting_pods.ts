import { type EventRecorder, kinds, type Pod, podVolumes, runController, watch } from '@hearth/common/kubernetes';
import type { Dataset } from '@hearth/common/resources';
import { Interests, type Source } from '../kubernetes/index.ts';
import { type ControllerParts, findCondition, type Reconciler, reconcileKey } from '../reconciler/index.ts';

/** A pod on a node that has started nothing yet, and whose volumes name Datasets. */
export interface AwaitingPod {
  namespace: string;
  name: string;
  uid: string;
  /** Names of Datasets of its namespace, by inline volumes, each once. */
  datasets: readonly string[];
}

/** Undefined: the pod waits for no Dataset. Claims have events of their own, and a pod whose claim waits has no node. */
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

/** Of a Dataset's own message: the event has room for the sentence around it. */
const longestQuote = 768;

export type ObservedDatasets = readonly { name: string; dataset: Dataset | undefined }[];

/** An event of the pod. */
export interface Report {
  reason: 'DatasetNotReady' | 'DatasetNotFound';
  message: string;
}

export interface WaitingPodsParts {
  datasets: Pick<Source<Dataset>, 'get'>;
  events: Pick<EventRecorder, 'eventFor'>;
}

/**
 * Tells a pod that cannot start why its Datasets are not ready, in the words of the Dataset: an agent, and so the event of
 * the kubelet, does not know of a Secret that may not be read. Each sentence is reported once to each pod.
 */
export class WaitingPods implements Reconciler<AwaitingPod, ObservedDatasets, Report> {
  readonly #options: WaitingPodsParts;
  /** Sentences by the uid of the pod. */
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

/** Long enough for a Dataset that was made together with its pod to be seen first. */
const gatherMs = 2_000;

/** Tells pods why they wait until the signal aborts. */
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

/** Keys of the Datasets that a pod waits for. */
function awaitedBy(pod: AwaitingPod | undefined): ReadonlySet<string> {
  return new Set(pod?.datasets.map((name) => `${pod.namespace}/${name}`));
}

function readinessOf(dataset: Dataset | undefined): string {
  const ready = findCondition(dataset?.status?.conditions, 'Ready');
  return JSON.stringify([dataset === undefined, ready?.status, ready?.reason, ready?.message]);
}
