import type { NodeState } from '@hearth/common/resources';
import type { ClusterStatus } from '../agents/index.ts';
import type { NodeFacts } from './node_facts.ts';
import type { PodState } from './pod_state.ts';

const mostNodesListed = 500;
const longestMessage = 1024;

export interface NodeStatesInput {
  /** The nodes of the cluster with their groups. */
  nodes: readonly { facts: NodeFacts; group: string }[];
  /** Agents' pods of the cluster. */
  agents: readonly PodState[];
  status: ClusterStatus | undefined;
}

/** How each node of a cluster is, by name. */
export function nodeStates({ nodes, agents, status }: NodeStatesInput): NodeState[] {
  const pods = new Map<string, PodState>();
  for (const pod of agents) {
    const other = pods.get(pod.node);
    // While a pod is being replaced, the new one is what counts.
    if (other === undefined || other.deleting) pods.set(pod.node, pod);
  }
  return nodes
    .map(({ facts, group }) => ({ name: facts.name, group, ...readiness(facts, pods.get(facts.name), status) }))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** What is listed in the status: nodes that are not ready first, and not too many. */
export function listedStates(states: readonly NodeState[]): NodeState[] {
  const listed = [...states.filter(({ ready }) => !ready), ...states.filter(({ ready }) => ready)];
  return listed.slice(0, mostNodesListed);
}

function readiness(node: NodeFacts, pod: PodState | undefined, status: ClusterStatus | undefined) {
  const no = (reason: string, message: string) => ({ ready: false, reason, message: message.slice(0, longestMessage) });
  if (pod === undefined) {
    return node.ready
      ? no('NoPod', 'It has no pod of an agent yet')
      : no('NodeNotReady', 'The node itself is not ready, and has no pod of an agent');
  }
  const agent = status?.connected === true ? status.nodes.get(node.name) : undefined;
  // What agents say of one another is newer than what the kubelet tells.
  if (agent?.ready === true && pod.running) return { ready: true, reason: 'Ready', message: '' };
  if (agent !== undefined && pod.running && agent.reason !== '') {
    return no('AgentNotReady', `Its agent is not ready: ${agent.reason}`);
  }
  if (!node.ready) return no('NodeNotReady', 'The node itself is not ready');
  if (pod.ready) return { ready: true, reason: 'Ready', message: '' };
  return no(pod.trouble?.reason ?? 'AgentNotReady', pod.trouble?.message ?? 'Its agent is not ready yet');
}
