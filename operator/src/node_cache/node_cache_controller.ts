import { isDeepStrictEqual } from 'node:util';
import type { Logger } from '@hearth/common';
import type { NodeStatus } from '@hearth/common/generated/hearth/v1/control.ts';
import { type Clock, hasNewSpec, ownKey, runController, systemClock, watch } from '@hearth/common/kubernetes';
import type { Dataset } from '@hearth/common/resources';
import type { Agents } from '../agents/index.ts';
import { type NodeFacts, Placements, type Source } from '../kubernetes/index.ts';
import { KeptCopies } from '../nodes/index.ts';
import { reconcileKey } from '../reconciler/index.ts';
import { betweenWritesMs, NodeCacheReconciler, type NodeCacheReconcilerOptions } from './node_cache_reconciler.ts';

export interface NodeCacheControllerOptions extends Pick<NodeCacheReconcilerOptions, 'api' | 'caches' | 'clusters'> {
  agents: Agents;
  /** Projected by `nodeFacts`. */
  nodes: Source<NodeFacts>;
  datasets: Source<Dataset>;
  logger: Logger;
  clock?: Clock;
}

/** Runs the reconciler of NodeCaches, on the leader only, until the signal aborts. The reflectors run already. */
export async function runNodeCacheController(options: NodeCacheControllerOptions, signal: AbortSignal): Promise<void> {
  const { agents, clusters, nodes, caches, datasets, logger, clock = systemClock } = options;
  const placements = new Placements(clusters, nodes);
  const placeOf = (node: string) => placements.placeOf(node);
  const now = () => clock.date().getTime();
  const reconciler = new NodeCacheReconciler({ ...options, placeOf, kept: new KeptCopies({ datasets, nodes }), now });
  const all = () => new Set([...nodes.keys(), ...caches.keys()]);
  await runController({
    name: 'nodecaches',
    workers: 8,
    watches: [
      placements,
      watch(nodes, ownKey),
      // Its status is written here alone; what others write of spec or owner is put right.
      watch(caches, (name, before, after) => (after === undefined || hasNewSpec(before, after) ? [name] : [])),
      watch(clusters, (_name, before, after) => (hasNewSpec(before, after) ? all() : [])),
      watch(agents, (cluster, before, after) =>
        placements.nodesOf(cluster).filter((node) => {
          return (
            before?.connected !== after?.connected || before?.nodes.get(node)?.ready !== after?.nodes.get(node)?.ready
          );
        }),
      ),
      // A node may go or not depending on the copies of the others.
      watch(
        agents,
        (cluster, before, after) =>
          placements.nodesOf(cluster).filter((node) => {
            return nodes.get(node)?.leaving || !sameFigures(before?.nodes.get(node), after?.nodes.get(node));
          }),
        () => betweenWritesMs * (0.5 + clock.random() / 2),
      ),
    ],
    reads: [datasets],
    first: all,
    reconcile: reconcileKey(reconciler, (node) => node),
    logger,
    signal,
  });
}

/** True when a NodeCache would show the same; most of the time most nodes say nothing new. */
function sameFigures(was: NodeStatus | undefined, is: NodeStatus | undefined): boolean {
  if (was === undefined || is === undefined) return was === is;
  return (
    was.usedBytes === is.usedBytes &&
    was.budgetBytes === is.budgetBytes &&
    was.reason === is.reason &&
    isDeepStrictEqual(was.residentBytes, is.residentBytes) &&
    isDeepStrictEqual(was.capabilities, is.capabilities)
  );
}
