import { isDeepStrictEqual } from 'node:util';
import type { Logger } from '@hearth/common';
import type { NodeStatus } from '@hearth/common/generated/hearth/v1/control.ts';
import { type KubernetesClient, runController, WorkQueue } from '@hearth/common/kubernetes';
import type { Dataset, NodeCache, StorageCluster } from '@hearth/common/resources';
import type { Agents } from '../agents/index.ts';
import { type NodeFacts, Placements, type Source } from '../kubernetes/index.ts';
import { KeptCopies } from '../nodes/index.ts';
import { betweenWritesMs, NodeCacheReconciler } from './node_cache_reconciler.ts';

export interface NodeCacheControllerOptions {
  api: Pick<KubernetesClient, 'apply' | 'delete'>;
  agents: Agents;
  clusters: Source<StorageCluster>;
  /** Projected by `nodeFacts`. */
  nodes: Source<NodeFacts>;
  caches: Source<NodeCache>;
  datasets: Source<Dataset>;
  logger: Logger;
  now?: () => number;
}

/** Runs the reconciler of NodeCaches, on the leader only, until the signal aborts. The reflectors run already. */
export async function runNodeCacheController(options: NodeCacheControllerOptions, signal: AbortSignal): Promise<void> {
  const { api, agents, clusters, nodes, caches, datasets, logger, now = Date.now } = options;
  const queue = new WorkQueue({ firstDelayMs: 500, longestDelayMs: 60_000 });
  const placements = new Placements(clusters, nodes);
  const addAll = () => {
    for (const name of new Set([...nodes.keys(), ...caches.keys()])) queue.add(name);
  };
  const stops = [
    placements.start(),
    nodes.onChange((name) => queue.add(name)),
    caches.onChange((name, before, after) => {
      // Its status is written by no other; whoever changes spec or owner is put right.
      if (after === undefined || before?.metadata.generation !== after.metadata.generation) queue.add(name);
    }),
    clusters.onChange((_name, before, after) => {
      const { generation, deletionTimestamp } = after?.metadata ?? {};
      const same =
        before?.metadata.generation === generation && before?.metadata.deletionTimestamp === deletionTimestamp;
      if (!same) addAll();
    }),
    agents.onStatus((cluster, before, after) => {
      for (const node of placements.nodesOf(cluster)) {
        const [was, is] = [before?.nodes.get(node), after?.nodes.get(node)];
        // A change of readiness is written at once, figures when their time has come.
        if (was?.ready !== is?.ready || before?.connected !== after?.connected) queue.add(node);
        // Whether a node may go depends on what the others hold.
        else if (!sameFigures(was, is) || nodes.get(node)?.leaving)
          queue.addAfter(node, betweenWritesMs * (0.5 + Math.random() / 2));
      }
    }),
  ];
  try {
    await Promise.all([clusters, nodes, caches, datasets].map((source) => source.synced()));
    addAll();
    const placeOf = (node: string) => placements.placeOf(node);
    const kept = new KeptCopies({ datasets, nodes });
    const reconciler = new NodeCacheReconciler({ api, agents, caches, clusters, placeOf, kept, now });
    const reconcile = (node: string, pass: AbortSignal) => reconciler.reconcile(node, pass);
    await runController({ name: 'nodecaches', queue, workers: 8, reconcile, logger, signal });
  } finally {
    for (const stop of stops) stop();
  }
}

/** Whether a NodeCache would show the same; most of the time most nodes say nothing new. */
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
