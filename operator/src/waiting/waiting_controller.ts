import type { Logger } from '@hearth/common';
import { type EventRecorder, runController, WorkQueue, watch } from '@hearth/common/kubernetes';
import type { Dataset } from '@hearth/common/resources';
import type { Source } from '../kubernetes/index.ts';
import { findCondition, reconcileKey } from '../reconciler/index.ts';
import type { AwaitingPod } from './awaiting_pod.ts';
import { WaitingPods } from './waiting_pods.ts';

export interface WaitingControllerOptions {
  /** Projected by `awaitingPod`, or to a part of that. */
  pods: Source<AwaitingPod>;
  datasets: Source<Dataset>;
  events: Pick<EventRecorder, 'eventFor'>;
  logger: Logger;
}

/** Long enough for a Dataset that was made together with its pod to be seen first. */
const gatherMs = 2_000;

/** Tells pods why they wait, on the leader only, until the signal aborts. The reflectors run already. */
export async function runWaitingController(options: WaitingControllerOptions, signal: AbortSignal): Promise<void> {
  const { pods, datasets, events, logger } = options;
  const reconciler = new WaitingPods({ datasets, events });
  const waiting = new WaitingByDataset();
  await runController({
    name: 'waiting-pods',
    queue: new WorkQueue({ firstDelayMs: 500, longestDelayMs: 60_000 }),
    workers: 2,
    watches: [
      watch(
        pods,
        (key, before, after) => {
          waiting.update(key, before, after);
          if (before !== undefined && before.uid !== after?.uid) reconciler.forget(before.uid);
          return after === undefined ? [] : [key];
        },
        gatherMs,
      ),
      watch(datasets, (key, before, after) => (readinessOf(before) === readinessOf(after) ? [] : waiting.for(key))),
    ],
    first: () => {
      for (const key of pods.keys()) waiting.update(key, undefined, pods.get(key));
      return pods.keys();
    },
    reconcile: reconcileKey(reconciler, (key) => pods.get(key)),
    logger,
    signal,
  });
}

/** Keys of pods, by the key of a Dataset that they wait for. */
class WaitingByDataset {
  readonly #pods = new Map<string, Set<string>>();

  update(pod: string, before: AwaitingPod | undefined, after: AwaitingPod | undefined): void {
    for (const dataset of keysOf(before)) {
      const there = this.#pods.get(dataset);
      there?.delete(pod);
      if (there?.size === 0) this.#pods.delete(dataset);
    }
    for (const dataset of keysOf(after)) this.#pods.set(dataset, (this.#pods.get(dataset) ?? new Set()).add(pod));
  }

  for(dataset: string): string[] {
    return [...(this.#pods.get(dataset) ?? [])];
  }
}

const keysOf = (pod: AwaitingPod | undefined) => pod?.datasets.map((name) => `${pod.namespace}/${name}`) ?? [];

function readinessOf(dataset: Dataset | undefined): string {
  const ready = findCondition(dataset?.status?.conditions, 'Ready');
  return JSON.stringify([dataset === undefined, ready?.status, ready?.reason, ready?.message]);
}
