import type { Logger } from '@hearth/common';
import { type EventRecorder, runController, watch } from '@hearth/common/kubernetes';
import type { Dataset } from '@hearth/common/resources';
import { Interests, type Source } from '../kubernetes/index.ts';
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
