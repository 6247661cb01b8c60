import { listed } from '@hearth/common';
import type { NodeState, StorageCluster, StorageClusterStatus } from '@hearth/common/resources';
import type { ClusterStatus } from '../agents/index.ts';
import { type NodeFacts, namedPods } from '../kubernetes/index.ts';
import { type ConditionState, condition, type DesiredStatus } from '../reconciler/index.ts';
import { adviceConditions } from './advice.ts';
import type { Observation } from './observation.ts';
import { type PodState, startingReason } from './pod_state.ts';
import { storeDataCondition } from './store_data.ts';

/** Normal steps on the way to Ready. */
export const progressReasons = ['Starting', 'StoreStarting'];
const startingReasons = new Set(['NoPod', startingReason, 'PodNotReady']);

export function clusterStatus(cluster: StorageCluster, observation: Observation): DesiredStatus<StorageCluster> {
  const { nodes, store, refused } = observation;
  const endpoints = refused?.kind === 'Move' ? cluster.status?.store?.endpoints : store?.endpoints;
  const parts = [
    certificates(observation),
    references(observation),
    storeReady(observation),
    agentsReady(nodes),
    placement(cluster, observation),
  ];
  return {
    nodesDesired: nodes.filter(isUp).length,
    nodesReady: nodes.filter(({ ready }) => ready).length,
    ...figures(cluster.status, observation),
    nodes: listedStates(nodes),
    store: { ready: store?.ready ?? false, endpoints: [...(endpoints ?? [])] },
    conditions: [
      sum(parts),
      ...parts,
      released(observation),
      storeDataCondition(refused, cluster),
      ...adviceConditions(observation, cluster),
    ],
  };
}

/** Ready sums up all other parts. */
function sum(parts: readonly ConditionState[]): ConditionState {
  const failing = parts.filter(({ status }) => status !== 'True');
  const [first] = failing;
  if (first === undefined) return condition('Ready', 'True', 'Ready', 'All nodes are ready and the store answers');
  return condition('Ready', 'False', first.reason, failing.map(({ message }) => message).join('. '));
}

function certificates({ certificates }: Observation): ConditionState {
  const [until, renewed] = [certificates.expiresAt, certificates.renewAt].map((time) =>
    time.toISOString().slice(0, 10),
  );
  const message = `The certificates are valid until ${until}; the operator renews them from ${renewed} on`;
  return condition('Certificates', 'True', 'Issued', message);
}

function references({ missing }: Observation): ConditionState {
  if (missing.length === 0)
    return condition('References', 'True', 'Found', 'Everything that the spec refers to is there');
  return condition('References', 'False', 'ReferenceNotFound', missing.join('. '));
}

function storeReady({ store, nodes, agents }: Observation): ConditionState {
  if (store === undefined) return condition('StoreReady', 'False', 'StoreStarting', 'The store has no address yet');
  if (store.ready) return condition('StoreReady', 'True', 'Ready', 'The store answers');
  if (store.trouble !== undefined) {
    const reason = startingReasons.has(store.trouble.reason) ? 'StoreStarting' : `Store${store.trouble.reason}`;
    return condition('StoreReady', 'False', reason, `The store is not ready. ${store.trouble.message}`);
  }
  return condition('StoreReady', 'False', 'StoreUnknown', storeUnknown(nodes, agents.trouble));
}

/** `trouble`: the error of the last call to an agent. */
function storeUnknown(nodes: readonly NodeState[], trouble: string | undefined): string {
  if (nodes.length === 0) return 'No agent runs yet that could report on the store';
  if (trouble !== undefined) return `No agent is ready that could report on the store: ${trouble}`;
  return 'No agent is ready that could report on the store; look at the reasons of the nodes';
}

function agentsReady(nodes: readonly NodeState[]): ConditionState {
  if (nodes.length === 0) {
    const message = 'No node has the labels of any node group; label nodes or change nodeGroups';
    return condition('AgentsReady', 'False', 'NoNodes', message);
  }
  const expected = nodes.filter(isUp);
  const down = nodes.filter((node) => !isUp(node)).map(({ name }) => name);
  if (expected.length === 0) {
    return condition('AgentsReady', 'False', 'NodesNotReady', `No node is ready itself: ${listed(down)}`);
  }
  const waiting = expected.filter(({ ready }) => !ready);
  const without = down.length === 0 ? '' : `, but for ${down.length} that are not ready themselves: ${listed(down)}`;
  if (waiting.length === 0) {
    return condition('AgentsReady', 'True', 'Ready', `All ${expected.length} nodes are ready${without}`);
  }
  // Problems that need a person come first.
  const troubled = waiting.filter(({ reason }) => !startingReasons.has(reason));
  const ordered = [...troubled, ...waiting.filter(({ reason }) => startingReasons.has(reason))];
  const named = ordered.map((node) => `${node.name}: ${node.message}`);
  const message = `${waiting.length} of ${expected.length} nodes are not ready: ${listed(named, { separator: '; ' })}`;
  return condition('AgentsReady', 'False', troubled.length === 0 ? 'Starting' : 'NodesNotReady', message);
}

/** False for a node that cannot run an agent itself, which the cluster does not wait for. */
function isUp({ reason }: NodeState): boolean {
  return reason !== nodeNotReadyReason;
}

/** Groups of one cluster may overlap: the first group gets the node. */
function placement(cluster: StorageCluster, { conflicts, foreign }: Observation): ConditionState {
  if (foreign.length > 0) {
    const message = `${foreign.join(', ')} belong to another StorageCluster; give this one, or its node groups, other names`;
    return condition('Placement', 'False', 'NameTaken', message);
  }
  const taken = conflicts.filter(({ takenBy }) => takenBy.cluster !== cluster.metadata.name);
  if (taken.length === 0)
    return condition('Placement', 'True', 'Exclusive', 'No other StorageCluster has one of the nodes');
  const named = taken.map(({ node, group, takenBy }) => {
    return `Node ${node} of group ${group} belongs to group ${takenBy.group} of StorageCluster ${takenBy.cluster}`;
  });
  const message = `${listed(named, { separator: '; ' })}; give the groups selectors that exclude each other`;
  return condition('Placement', 'False', 'NodeInAnotherCluster', message);
}

/** For people; does not affect Ready. */
function released({ keptBy }: Observation): ConditionState {
  const type = 'NodesReleased';
  if (keptBy.length === 0) return condition(type, 'True', 'Released', 'Agents run on nodes of the node groups alone');
  const message = `Agents stay on nodes that have left their node group, because pods mount volumes there: ${namedPods(keptBy)}; delete these pods, and the agents go`;
  return condition(type, 'False', 'InUse', message);
}

/** Keeps the figures while no agent answers. Ignores agents of former nodes. */
function figures(before: StorageClusterStatus | undefined, { status, nodes }: Observation) {
  if (status?.connected !== true) {
    const { capacityBytes = 0, usedBytes = 0, datasets = 0 } = before ?? {};
    return { capacityBytes, usedBytes, datasets };
  }
  const own = new Set(nodes.map(({ name }) => name));
  const ready = [...status.nodes.values()].filter((node) => node.ready && own.has(node.node));
  return {
    capacityBytes: ready.reduce((total, node) => total + Number(node.budgetBytes), 0),
    usedBytes: ready.reduce((total, node) => total + Number(node.usedBytes), 0),
    datasets: status.datasets.size,
  };
}

const maxNodesListed = 500;
const longestMessage = 1024;
/** The node itself cannot run an agent now. */
const nodeNotReadyReason = 'NodeNotReady';
/** A kubelet that needs longer has a problem that it reports only in events, ms. */
const startingMs = 60_000;

interface NodeStatesInput {
  nodes: readonly { facts: NodeFacts; group: string }[];
  agents: readonly PodState[];
  status: ClusterStatus | undefined;
  namespace: string;
  now: Date;
}

export function nodeStates({ nodes, agents, status, namespace, now }: NodeStatesInput): NodeState[] {
  const pods = new Map<string, PodState>();
  for (const pod of agents) {
    const other = pods.get(pod.node);
    // The replacement of a terminating pod counts.
    if (other === undefined || other.deleting) pods.set(pod.node, overdue(pod, namespace, now));
  }
  return nodes
    .map(({ facts, group }) => ({ name: facts.name, group, ...readiness(facts, pods.get(facts.name), status) }))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

function overdue(pod: PodState, namespace: string, now: Date): PodState {
  if (pod.trouble?.reason !== startingReason || now.getTime() - pod.createdAt < startingMs) return pod;
  const message = `The pod has not started for a minute or more; \`kubectl -n ${namespace} describe pod ${pod.name}\` says why`;
  return { ...pod, trouble: { reason: 'PodNotStarted', message } };
}

/** At most `maxNodesListed`, nodes that are not ready first. */
export function listedStates(states: readonly NodeState[]): NodeState[] {
  const listed = [...states.filter(({ ready }) => !ready), ...states.filter(({ ready }) => ready)];
  return listed.slice(0, maxNodesListed);
}

function readiness(node: NodeFacts, pod: PodState | undefined, status: ClusterStatus | undefined) {
  const no = (reason: string, message: string) => ({ ready: false, reason, message: message.slice(0, longestMessage) });
  if (pod === undefined) {
    return node.ready
      ? no('NoPod', 'The node has no pod of an agent yet')
      : no(nodeNotReadyReason, 'The node itself is not ready, and has no pod of an agent');
  }
  const agent = status?.connected === true ? status.nodes.get(node.name) : undefined;
  // Agents report on one another sooner than the kubelet does.
  if (agent?.ready === true && pod.running) return { ready: true, reason: 'Ready', message: '' };
  if (agent !== undefined && pod.running && agent.reason !== '') {
    return no('AgentNotReady', `The agent is not ready: ${agent.reason}`);
  }
  if (!node.ready) return no(nodeNotReadyReason, 'The node itself is not ready');
  if (pod.ready) return { ready: true, reason: 'Ready', message: '' };
  return no(pod.trouble?.reason ?? 'AgentNotReady', pod.trouble?.message ?? 'The agent is not ready yet');
}
