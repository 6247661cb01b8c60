import { epochMs, ignoring, systemClock } from '@hearth/common';
import type { NodeStatus } from '@hearth/common/generated/hearth/v1/control.ts';
import {
  type EventRecorder,
  hasNewSpec,
  type KubernetesClient,
  kinds,
  runController,
  watch,
} from '@hearth/common/kubernetes';
import type { StorageCluster } from '@hearth/common/resources';
import type { Agents } from '../agents/index.ts';
import type { NodeFacts, Place, Source } from '../kubernetes/index.ts';
import { type ControllerParts, type Reconciler, reconcileKey } from '../reconciler/index.ts';
import { requestCopy } from './copy.ts';
import { KeptCopies } from './kept_copies.ts';
import { type NodeAction, type ObservedNode, type Passage, planNode } from './node_plan.ts';
import { withoutStartupTaint } from './taint.ts';

export interface NodeReconcilerOptions {
  api: Pick<KubernetesClient, 'get' | 'patch'>;
  agents: Pick<Agents, 'get'>;
  clusters: Pick<Source<StorageCluster>, 'get'>;
  kept: Pick<KeptCopies, 'on' | 'leaves'>;
  placeOf: (node: string) => Place | undefined;
  events: Pick<EventRecorder, 'eventFor'>;
  now: () => number;
}

export class NodeReconciler implements Reconciler<NodeFacts, ObservedNode, NodeAction> {
  readonly plan = (node: NodeFacts, observed: ObservedNode) => planNode(node, observed).actions;
  readonly requeueAfterMs = (node: NodeFacts, observed: ObservedNode) => planNode(node, observed).requeueAfterMs;
  readonly #options: NodeReconcilerOptions;
  readonly #taintedAgain = new Map<string, number>();
  readonly #reported = new Map<string, Partial<Record<Passage, string>>>();

  constructor(options: NodeReconcilerOptions) {
    this.#options = options;
  }

  /** Must see every change of a node, to time a returning taint. */
  changed(name: string, before: NodeFacts | undefined, after: NodeFacts | undefined): void {
    if (before?.tainted === false && after?.tainted === true) this.#taintedAgain.set(name, this.#options.now());
    if (after?.tainted !== true) this.#taintedAgain.delete(name);
    if (after === undefined) this.#reported.delete(name);
  }

  async observe(node: NodeFacts): Promise<ObservedNode> {
    const { name } = node;
    const { agents, clusters, kept, placeOf, now } = this.#options;
    const place = placeOf(name);
    const cluster = place && clusters.get(place.cluster);
    const known = cluster && agents.get(cluster.metadata.name)?.status;
    const status = known?.connected === true ? known : undefined;
    const copies = kept.leaves(node) && status !== undefined ? kept.on(name, status) : undefined;
    const reported = this.#reported.get(name) ?? {};
    // A node that leaves again is reported again.
    if (cluster !== undefined && copies === undefined) delete reported.leave;
    return { now: now(), cluster, status, taintedAgainAt: this.#taintedAgain.get(name), copies, reported };
  }

  async apply(action: NodeAction, node: NodeFacts, signal: AbortSignal): Promise<void> {
    const { agents, events } = this.#options;
    switch (action.kind) {
      case 'removeTaint':
        return await this.#removeTaint(node, action, signal);
      case 'reportPlace':
        return await this.#reportPlace(node, action.cluster, signal);
      case 'requestCopy':
        return await requestCopy(agents.get(action.cluster), action.copy, action.job, signal);
      case 'event': {
        const { passage, type, reason, message } = action;
        this.#reported.set(node.name, { ...this.#reported.get(node.name), [passage]: message });
        const object = { metadata: { name: node.name, uid: node.uid } };
        return events.eventFor(kinds.Node, object, type, reason, message);
      }
    }
  }

  async #removeTaint(
    { name }: NodeFacts,
    { cluster, demands, late }: Extract<NodeAction, { kind: 'removeTaint' }>,
    signal: AbortSignal,
  ): Promise<void> {
    const { api, events } = this.#options;
    const node = await api.get(kinds.Node, name, undefined, signal);
    const patch = node && withoutStartupTaint(node);
    if (node === undefined || patch === undefined) return;
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
        ? `${after} the agent is still not ready; pods may run here, and read their Datasets when the agent is ready`
        : `${after} the node still does not hold ${missing.join(', ')}; pods may run here, and read them from elsewhere`;
    events.eventFor(kinds.Node, node, 'Warning', 'AgentLate', `Removed the startup taint: ${why}`);
    const message = `Removed the startup taint of node ${name}: ${why}`;
    events.eventFor(kinds.StorageCluster, cluster, 'Warning', 'AgentLate', message);
  }

  /** An older agent does not support the call, and is asked again with its next report. */
  async #reportPlace({ name, zone, rack }: NodeFacts, cluster: string, signal: AbortSignal): Promise<void> {
    const agents = this.#options.agents.get(cluster);
    await agents?.call('configureNode', { zone, rack }, { signal, node: name }).catch(ignoring('Unsupported'));
  }
}

export async function runNodeController(parts: ControllerParts, signal: AbortSignal): Promise<void> {
  const { agents, clusters, nodes, datasets, placements, logger } = parts;
  const placeOf = (node: string) => placements.placeOf(node);
  const now = () => epochMs(systemClock);
  const kept = new KeptCopies({ ...parts, placeOf });
  const reconciler = new NodeReconciler({ ...parts, kept, placeOf, now });
  const isDue = (node: NodeFacts | undefined, agent: NodeStatus | undefined) => {
    if (node === undefined) return false;
    return (
      kept.leaves(node) ||
      (agent?.ready === true && (node.tainted || agent.zone !== node.zone || agent.rack !== node.rack))
    );
  };
  await runController({
    name: 'nodes',
    workers: 4,
    watches: [
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
