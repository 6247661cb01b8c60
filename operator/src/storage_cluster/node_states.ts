import type { NodeState } from '@hearth/common/resources';
import type { ClusterStatus } from '../agents/index.ts';
import type { NodeFacts } from '../kubernetes/index.ts';
import { type PodState, startingReason } from './pod_state.ts';

const maxNodesListed = 500;
const longestMessage = 1024;
/** The node itself cannot run an agent now. */
export const nodeNotReadyReason = 'NodeNotReady';
/** A kubelet that needs longer has a problem that it reports only in events, ms. */
const startingMs = 60_000;

export interface NodeStatesInput {
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
