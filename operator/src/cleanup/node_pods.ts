import { HearthError, type Logger } from '@hearth/common';
import { type Clock, type KubernetesClient, kinds, type Pod, sleep, systemClock } from '@hearth/common/kubernetes';
import { all, componentLabel, deleteAll, nodeFacts, ownedSelector } from '../kubernetes/index.ts';

export interface NodePodsOptions {
  api: Pick<KubernetesClient, 'list' | 'delete'>;
  namespace: string;
  logger: Logger;
  signal: AbortSignal;
  clock?: Clock;
}

/** `DeadlineExceeded` names pods that remain after `timeMs`; ignores pods on nodes that are not ready. */
export async function removeFromNodes(
  options: NodePodsOptions,
  component: 'agent' | 'holder',
  timeMs: number,
): Promise<void> {
  const { api, namespace, logger, signal } = options;
  const place = { namespace, labelSelector: `${ownedSelector},${componentLabel}=${component}` };
  let left: Pod[] = [];
  const gone = await until(options, timeMs, async () => {
    const sets = await deleteAll(api, kinds.DaemonSet, place, signal);
    // The garbage collector removes pods after their owners.
    left = await all(api, kinds.Pod, place, signal);
    return sets.length === 0 && left.length === 0;
  });
  if (gone) return;
  const nodes = (await all(api, kinds.Node, {}, signal)).map(nodeFacts);
  const ready = new Set(nodes.flatMap((node) => (node.ready ? [node.name] : [])));
  const named = (pods: Pod[]) => pods.map(({ metadata }) => metadata?.name).slice(0, 10);
  const alive = left.filter(({ spec }) => ready.has(spec?.nodeName ?? ''));
  if (alive.length > 0) {
    throw new HearthError(
      'DeadlineExceeded',
      `after ${Math.round(timeMs / 1000)} s these ${component}s still run: ${named(alive).join(', ')}; ` +
        'look at their nodes and uninstall again',
    );
  }
  logger.warn(`not waiting for ${component}s on nodes that are not ready`, { pods: named(left) });
}

export const pauseMs = 1_000;

/** Resolves to true once the condition holds, false after `timeMs`. Checks at least once. */
export async function until(
  { signal, clock = systemClock }: { signal: AbortSignal; clock?: Clock },
  timeMs: number,
  holds: () => Promise<boolean>,
): Promise<boolean> {
  for (const end = clock.now() + timeMs; ; ) {
    if (await holds()) return true;
    if (clock.now() >= end) return false;
    await sleep(clock, pauseMs, signal);
    signal.throwIfAborted();
  }
}
