import { HearthError } from '@hearth/common';
import { type EventRecorder, type KubernetesClient, kinds, type ReconcileResult } from '@hearth/common/kubernetes';
import { type StorageCluster, startupTaintKey } from '@hearth/common/resources';
import type { Agents, ClusterAgents, ClusterStatus } from '../agents/index.ts';
import type { NodeFacts, Place, Source } from '../kubernetes/index.ts';
import { bringCopy, type Copy } from './copy.ts';
import { type JoinDemand, joinDemands } from './join.ts';
import type { KeptCopies } from './kept_copies.ts';
import { decideTaint } from './taint.ts';

export interface NodeReconcilerOptions {
  api: Pick<KubernetesClient, 'get' | 'patch'>;
  agents: Pick<Agents, 'get'>;
  clusters: Source<StorageCluster>;
  nodes: Source<NodeFacts>;
  kept: Pick<KeptCopies, 'on'>;
  placeOf: (node: string) => Place | undefined;
  events: Pick<EventRecorder, 'eventFor'>;
  now: () => number;
}

/** How often a copy that is under way or cannot be made is looked at, ms; the agents' status shows the others. */
const lookAgainMs = 15_000;

/**
 * What the operator does for a node: takes its startup taint away when it holds what is asked of it, moves last copies
 * off it before it goes, and sends its agent zone and rack.
 */
export class NodeReconciler {
  readonly #options: NodeReconcilerOptions;
  /** When a taint was seen on a node that was seen without it before. */
  readonly #taintedAgain = new Map<string, number>();
  /** What was reported last of a node's arrival and leaving, so that an event reports it once. */
  readonly #reported = new Map<string, string>();

  constructor(options: NodeReconcilerOptions) {
    this.#options = options;
  }

  /** To be called for every change, so that a taint that is put back has its own time. */
  changed(name: string, before: NodeFacts | undefined, after: NodeFacts | undefined): void {
    if (before?.tainted === false && after?.tainted === true) this.#taintedAgain.set(name, this.#options.now());
    if (after?.tainted !== true) this.#taintedAgain.delete(name);
    if (after !== undefined) return;
    for (const what of ['join', 'leave']) this.#reported.delete(`${what} ${name}`);
  }

  async reconcile(name: string, signal: AbortSignal): Promise<ReconcileResult> {
    const { agents, clusters, nodes, placeOf, now } = this.#options;
    const node = nodes.get(name);
    const place = placeOf(name);
    const cluster = place && clusters.get(place.cluster);
    if (node === undefined || cluster === undefined) return {};
    const pool = agents.get(cluster.metadata.name);
    const status = pool?.status;
    const agent = status?.connected === true ? status.nodes.get(name) : undefined;
    const agentReady = agent?.ready === true;
    const connected = agentReady && pool !== undefined && status !== undefined ? { pool, status } : undefined;

    const came = [node.createdAt, cluster.metadata.creationTimestamp ?? ''].map((time) => Date.parse(time) || 0);
    const since = Math.max(...came, this.#taintedAgain.get(name) ?? 0);
    const demands = connected === undefined || !node.tainted ? [] : demandsOf(cluster, node, connected.status);
    const missing = demands.filter(({ complete }) => !complete);
    const arrival = { agentReady, holdsDemanded: missing.length === 0 };
    const decision = decideTaint(node, cluster, arrival, since, now());
    if (decision.kind === 'remove') await this.#removeTaint(node, cluster, { ...decision, demands }, signal);
    if (agentReady && (agent.zone !== node.zone || agent.rack !== node.rack)) {
      await this.#reportPlace(node, cluster.metadata.name, signal);
    }
    const waits: number[] = [];
    if (decision.kind === 'wait') waits.push(Math.max(1_000, decision.ms));
    if (decision.kind === 'wait' && connected !== undefined) {
      await this.#fetchDemanded(node, missing, connected, signal);
      waits.push(lookAgainMs);
    }
    if (node.leaving && status?.connected === true && pool !== undefined) {
      if (await this.#moveLastCopies(node, { pool, status }, signal)) waits.push(lookAgainMs);
    } else {
      this.#reported.delete(`leave ${name}`);
    }
    return waits.length === 0 ? {} : { requeueAfterMs: Math.min(...waits) };
  }

  async #fetchDemanded(node: NodeFacts, missing: JoinDemand[], cluster: Connected, signal: AbortSignal): Promise<void> {
    const wanted = missing.map(({ dataset: name, known: dataset, trouble }): WantedCopy => {
      const copy = dataset && { purpose: 'join', dataset, node: node.name };
      return { name, copy, trouble };
    });
    const troubles = await this.#bring(wanted, cluster, signal);
    const names = missing.map(({ dataset }) => dataset).join(', ');
    const message = `Pods may run here when the node holds ${names}, as the join policies ask`;
    this.#report('join', node, troubles, 'JoinWaits', message);
  }

  /** Whether there are any. */
  async #moveLastCopies(node: NodeFacts, cluster: Connected, signal: AbortSignal): Promise<boolean> {
    const copies = this.#options.kept.on(node.name, cluster.status);
    const wanted = copies.map(({ dataset, target, trouble }): WantedCopy => {
      const copy = target === undefined ? undefined : { purpose: 'keep', dataset, node: target };
      return { name: dataset.name, copy, trouble };
    });
    const troubles = await this.#bring(wanted, cluster, signal);
    if (copies.length > 0) {
      const moves = copies.flatMap(({ dataset, target }) =>
        target === undefined ? [] : [`${dataset.name} to ${target}`],
      );
      const message = `The node is to go and holds the only complete copies of some Datasets; they are copied: ${moves.join(', ') || 'none'}`;
      this.#report('leave', node, troubles, 'LastCopiesMove', message);
    } else if (this.#reported.has(`leave ${node.name}`)) {
      this.#report(
        'leave',
        node,
        [],
        'LastCopiesMoved',
        'Every Dataset that keeps its last copy has one on a node that stays',
      );
    }
    return copies.length > 0;
  }

  /** What is in the way, by Dataset. */
  async #bring(wanted: readonly WantedCopy[], { pool, status }: Connected, signal: AbortSignal): Promise<string[]> {
    const troubles: string[] = [];
    for (const { name, copy, trouble } of wanted) {
      const state = copy && (await bringCopy(pool, status, copy, this.#options.now(), signal));
      const why = state?.kind === 'failed' ? state.message : trouble;
      if (why !== '') troubles.push(`${name}: ${why}`);
    }
    return troubles;
  }

  /** Reports it by an event, once as long as it stays the same. */
  #report(what: string, node: NodeFacts, troubles: readonly string[], reason: string, message: string): void {
    const text = troubles.length === 0 ? message : `${message}. In the way: ${troubles.join('; ')}`;
    const key = `${what} ${node.name}`;
    if (this.#reported.get(key) === text) return;
    this.#reported.set(key, text);
    const object = { metadata: { name: node.name, uid: node.uid } };
    this.#options.events.eventFor(kinds.Node, object, troubles.length === 0 ? 'Normal' : 'Warning', reason, text);
  }

  /** The list of taints is replaced as a whole, so it must be the one that was read: the version makes sure. */
  async #removeTaint(
    { name }: NodeFacts,
    cluster: StorageCluster,
    { late, demands }: { late: boolean; demands: readonly JoinDemand[] },
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
      const held =
        demands.length === 0 ? '' : `, and the node holds ${demands.map(({ dataset }) => dataset).join(', ')}`;
      const message = `The agent of StorageCluster ${cluster.metadata.name} is ready${held}; pods may run here`;
      events.eventFor(kinds.Node, node, 'Normal', 'AgentReady', message);
      return;
    }
    const missing = demands.filter(({ complete }) => !complete).map(({ dataset }) => dataset);
    const after = `after ${cluster.spec.startupTaint.timeout}`;
    const why =
      missing.length === 0
        ? `${after} the agent is still not ready; pods may run here, and read their datasets when it is`
        : `${after} the node still does not hold ${missing.join(', ')}; pods may run here, and read them from elsewhere`;
    events.eventFor(kinds.Node, node, 'Warning', 'AgentLate', `The startup taint was taken away: ${why}`);
    events.eventFor(
      kinds.StorageCluster,
      cluster,
      'Warning',
      'AgentLate',
      `The startup taint of node ${name} was taken away: ${why}`,
    );
  }

  /** An agent that is too old for it, or has just gone, is sent it when it reports the next time. */
  async #reportPlace({ name, zone, rack }: NodeFacts, cluster: string, signal: AbortSignal): Promise<void> {
    try {
      await this.#options.agents.get(cluster)?.call('configureNode', { zone, rack }, { signal, node: name });
    } catch (thrown) {
      const error = HearthError.from(thrown);
      if (error.code !== 'Unsupported') throw error;
    }
  }
}

interface WantedCopy {
  /** Of the Dataset. */
  name: string;
  /** Undefined: it cannot be brought, for the trouble. */
  copy: Copy | undefined;
  trouble: string;
}

/** The agents of a cluster that answers, and what they said. */
interface Connected {
  pool: ClusterAgents;
  status: ClusterStatus;
}

function demandsOf(cluster: StorageCluster, node: NodeFacts, status: ClusterStatus): JoinDemand[] {
  const policies = cluster.spec.joinPolicies;
  return policies.length === 0 ? [] : joinDemands(policies, node, status);
}
