import { epochMs, type Logger, systemClock } from '@hearth/common';
import type { NodeStatus } from '@hearth/common/generated/hearth/v1/control.ts';
import { hasNewSpec, runController, watch } from '@hearth/common/kubernetes';
import type { Dataset, StorageCluster } from '@hearth/common/resources';
import type { Agents } from '../agents/index.ts';
import { type NodeFacts, Placements, type Source } from '../kubernetes/index.ts';
import { reconcileKey } from '../reconciler/index.ts';
import { KeptCopies } from './kept_copies.ts';
import { NodeReconciler, type NodeReconcilerOptions } from './node_reconciler.ts';

export interface NodeControllerOptions extends Pick<NodeReconcilerOptions, 'api' | 'events'> {
  agents: Agents;
  clusters: Source<StorageCluster>;
  /** Projected by `nodeFacts`. */
  nodes: Source<NodeFacts>;
  datasets: Source<Dataset>;
  logger: Logger;
  now?: () => number;
}

/** Looks after nodes, on the leader only, until the signal aborts. The reflectors run already. */
export async function runNodeController(options: NodeControllerOptions, signal: AbortSignal): Promise<void> {
  const { agents, clusters, nodes, datasets, logger, now = () => epochMs(systemClock) } = options;
  const placements = new Placements(clusters, nodes);
  const placeOf = (node: string) => placements.placeOf(node);
  const reconciler = new NodeReconciler({ ...options, kept: new KeptCopies({ datasets, nodes }), placeOf, now });
  await runController({
    name: 'nodes',
    workers: 4,
    watches: [
      placements,
      watch(nodes, (name, before, after) => {
        reconciler.changed(name, before, after);
        return JSON.stringify(before) === JSON.stringify(after) ? [] : [name];
      }),
      watch(clusters, (_name, before, after) => (hasNewSpec(before, after) ? nodes.keys() : [])),
      watch(agents, (cluster, _before, after) =>
        placements.nodesOf(cluster).filter((node) => isDue(nodes.get(node), after?.nodes.get(node))),
      ),
    ],
    reads: [datasets],
    first: () => nodes.keys(),
    reconcile: reconcileKey(reconciler, (name) => nodes.get(name)),
    logger,
    signal,
  });
}

/** True when this report of a node's agent calls for work. */
function isDue(node: NodeFacts | undefined, agent: NodeStatus | undefined): boolean {
  if (node?.leaving === true) return true;
  if (node === undefined || agent?.ready !== true) return false;
  return node.tainted || agent.zone !== node.zone || agent.rack !== node.rack;
}
