import type { Logger } from '@hearth/common';
import { type EventRecorder, type KubernetesClient, runController, WorkQueue } from '@hearth/common/kubernetes';
import type { Dataset, StorageCluster } from '@hearth/common/resources';
import type { Agents } from '../agents/index.ts';
import { type NodeFacts, Placements, type Source } from '../kubernetes/index.ts';
import { KeptCopies } from './kept_copies.ts';
import { NodeReconciler } from './node_reconciler.ts';

export interface NodeControllerOptions {
  api: Pick<KubernetesClient, 'get' | 'patch'>;
  agents: Agents;
  clusters: Source<StorageCluster>;
  /** Projected by `nodeFacts`. */
  nodes: Source<NodeFacts>;
  datasets: Source<Dataset>;
  events: Pick<EventRecorder, 'eventFor'>;
  logger: Logger;
  now?: () => number;
}

/** Looks after nodes, on the leader only, until the signal aborts. The reflectors run already. */
export async function runNodeController(options: NodeControllerOptions, signal: AbortSignal): Promise<void> {
  const { api, agents, clusters, nodes, datasets, events, logger, now = Date.now } = options;
  const queue = new WorkQueue({ firstDelayMs: 500, longestDelayMs: 60_000 });
  const placements = new Placements(clusters, nodes);
  const placeOf = (node: string) => placements.placeOf(node);
  const kept = new KeptCopies({ datasets, nodes });
  const reconciler = new NodeReconciler({ api, agents, clusters, nodes, kept, placeOf, events, now });
  const addAll = () => {
    for (const name of nodes.keys()) queue.add(name);
  };
  const stops = [
    placements.start(),
    nodes.onChange((name, before, after) => {
      reconciler.changed(name, before, after);
      if (JSON.stringify(before) !== JSON.stringify(after)) queue.add(name);
    }),
    clusters.onChange((_name, before, after) => {
      if (before?.metadata.generation !== after?.metadata.generation) addAll();
    }),
    agents.onStatus((cluster, _before, after) => {
      for (const node of placements.nodesOf(cluster)) {
        if (isDue(nodes.get(node), after?.nodes.get(node))) queue.add(node);
      }
    }),
  ];
  try {
    await Promise.all([clusters, nodes, datasets].map((source) => source.synced()));
    addAll();
    const reconcile = (name: string, pass: AbortSignal) => reconciler.reconcile(name, pass);
    await runController({ name: 'nodes', queue, workers: 4, reconcile, logger, signal });
  } finally {
    for (const stop of stops) stop();
  }
}

/** Whether there is something to do now that the agent of a node says this. */
function isDue(
  node: NodeFacts | undefined,
  agent: { ready: boolean; zone: string; rack: string } | undefined,
): boolean {
  if (node?.leaving === true) return true;
  if (node === undefined || agent?.ready !== true) return false;
  return node.tainted || agent.zone !== node.zone || agent.rack !== node.rack;
}
