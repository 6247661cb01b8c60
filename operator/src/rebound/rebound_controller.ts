import { isDeepStrictEqual } from 'node:util';
import type { Logger } from '@hearth/common';
import { runController, WorkQueue } from '@hearth/common/kubernetes';
import type { StorageCluster } from '@hearth/common/resources';
import type { Agents } from '../agents/index.ts';
import { type NodeFacts, Placements, type Source } from '../kubernetes/index.ts';
import { ReboundPods, type ReboundPodsOptions, volumesOf } from './rebound_pods.ts';

export interface ReboundControllerOptions extends Omit<ReboundPodsOptions, 'agents' | 'placeOf'> {
  agents: Agents;
  clusters: Source<StorageCluster>;
  /** Projected by `nodeFacts`. */
  nodes: Source<NodeFacts>;
  logger: Logger;
}

/** Notifies pods whose mounts died, on the leader only, until the signal aborts. The reflectors run already. */
export async function runReboundController(options: ReboundControllerOptions, signal: AbortSignal): Promise<void> {
  const { agents, clusters, nodes, caches, logger } = options;
  const queue = new WorkQueue({ firstDelayMs: 500, longestDelayMs: 60_000 });
  const placements = new Placements(clusters, nodes);
  const placeOf = (node: string) => placements.placeOf(node);
  const stops = [
    placements.start(),
    caches.onChange((name, before, after) => {
      if (before === undefined && after !== undefined) queue.add(name);
    }),
    agents.onStatus((cluster, before, after) => {
      for (const node of placements.nodesOf(cluster)) {
        const [was, is] = [before, after].map((status) => volumesOf(status?.nodes.get(node)));
        const again = before?.connected !== after?.connected;
        if (is !== undefined && (again || !isDeepStrictEqual(was, is))) queue.add(node);
      }
    }),
  ];
  try {
    await Promise.all([clusters, nodes, caches].map((source) => source.synced()));
    for (const name of nodes.keys()) queue.add(name);
    const reconciler = new ReboundPods({ ...options, placeOf });
    const reconcile = (name: string, pass: AbortSignal) => reconciler.reconcile(name, pass);
    await runController({ name: 'reboundpods', queue, workers: 4, reconcile, logger, signal });
  } finally {
    for (const stop of stops) stop();
  }
}
