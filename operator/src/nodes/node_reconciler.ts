import { HearthError } from '@hearth/common';
import { type EventRecorder, type KubernetesClient, kinds, type ReconcileResult } from '@hearth/common/kubernetes';
import { type StorageCluster, startupTaintKey } from '@hearth/common/resources';
import type { Agents } from '../agents/index.ts';
import type { NodeFacts, Place, Source } from '../storage_cluster/index.ts';
import { decideTaint } from './taint.ts';

export interface NodeReconcilerOptions {
  api: Pick<KubernetesClient, 'get' | 'patch'>;
  agents: Pick<Agents, 'get'>;
  clusters: Source<StorageCluster>;
  nodes: Source<NodeFacts>;
  placeOf: (node: string) => Place | undefined;
  events: Pick<EventRecorder, 'eventFor'>;
  now: () => number;
}

/** What the operator does for a node: takes its startup taint away, and tells its agent of zone and rack. */
export class NodeReconciler {
  readonly #options: NodeReconcilerOptions;
  /** When a taint was seen on a node that was seen without it before. */
  readonly #taintedAgain = new Map<string, number>();

  constructor(options: NodeReconcilerOptions) {
    this.#options = options;
  }

  /** To be told of every change, so that a taint that is put back has its own time. */
  changed(name: string, before: NodeFacts | undefined, after: NodeFacts | undefined): void {
    if (before?.tainted === false && after?.tainted === true) this.#taintedAgain.set(name, this.#options.now());
    if (after?.tainted !== true) this.#taintedAgain.delete(name);
  }

  async reconcile(name: string, signal: AbortSignal): Promise<ReconcileResult> {
    const { agents, clusters, nodes, placeOf, now } = this.#options;
    const node = nodes.get(name);
    const place = placeOf(name);
    const cluster = place && clusters.get(place.cluster);
    if (node === undefined || cluster === undefined) return {};
    const status = agents.get(cluster.metadata.name)?.status;
    const agent = status?.connected === true ? status.nodes.get(name) : undefined;

    const came = [node.createdAt, cluster.metadata.creationTimestamp ?? ''].map((time) => Date.parse(time) || 0);
    const since = Math.max(...came, this.#taintedAgain.get(name) ?? 0);
    const decision = decideTaint(node, cluster, agent?.ready === true, since, now());
    if (decision.kind === 'remove') await this.#removeTaint(node, cluster, decision, signal);
    if (agent?.ready === true && (agent.zone !== node.zone || agent.rack !== node.rack)) {
      await this.#tellPlace(node, cluster.metadata.name, signal);
    }
    return decision.kind === 'wait' ? { requeueAfterMs: Math.max(1_000, decision.ms) } : {};
  }

  /** The list of taints is replaced as a whole, so it must be the one that was read: the version makes sure. */
  async #removeTaint(
    { name }: NodeFacts,
    cluster: StorageCluster,
    { late }: { late: boolean },
    signal: AbortSignal,
  ): Promise<void> {
    const { api, events } = this.#options;
    const node = await api.get(kinds.Node, name, undefined, signal);
    const taints = node?.spec?.taints ?? [];
    const others = taints.filter(({ key }) => key !== startupTaintKey);
    if (node === undefined || others.length === taints.length) return;
    const { uid, resourceVersion } = node.metadata ?? {};
    const patch = { metadata: { uid, resourceVersion }, spec: { taints: others.length === 0 ? null : others } };
    await api.patch(kinds.Node, name, undefined, patch, { kind: 'merge', signal });
    if (!late) {
      events.eventFor(
        kinds.Node,
        node,
        'Normal',
        'AgentReady',
        `The agent of StorageCluster ${cluster.metadata.name} is ready; pods may run here`,
      );
      return;
    }
    const why = `after ${cluster.spec.startupTaint.timeout} the agent is still not ready; pods may run here, and read their datasets when it is`;
    events.eventFor(kinds.Node, node, 'Warning', 'AgentLate', `The startup taint was taken away: ${why}`);
    events.eventFor(
      kinds.StorageCluster,
      cluster,
      'Warning',
      'AgentLate',
      `The startup taint of node ${name} was taken away: ${why}`,
    );
  }

  /** An agent that is too old for it, or has just gone, is told when it tells of itself the next time. */
  async #tellPlace({ name, zone, rack }: NodeFacts, cluster: string, signal: AbortSignal): Promise<void> {
    try {
      await this.#options.agents.get(cluster)?.call('configureNode', { zone, rack }, { signal, node: name });
    } catch (thrown) {
      const error = HearthError.from(thrown);
      if (error.code !== 'Unsupported') throw error;
    }
  }
}
