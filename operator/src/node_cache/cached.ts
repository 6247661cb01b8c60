import type { NodeStatus } from '@hearth/common/generated/hearth/v1/control.ts';
import { type CachedDataset, type NodeCacheStatus, splitRegisteredName } from '@hearth/common/resources';
import type { ClusterStatus } from '../agents/index.ts';
import { type ConditionState, condition } from '../reconciler/index.ts';

const maxDatasets = 50;
const longestReason = 1024;

/** Another reconciler writes `reboundPods`. */
export type Figures = Omit<NodeCacheStatus, 'observedGeneration' | 'conditions' | 'updatedAt' | 'reboundPods'>;

/** An agent's report as a NodeCache shows it. */
export function figuresOf(agent: NodeStatus, status: ClusterStatus): Figures {
  const [budget, used] = [Number(agent.budgetBytes), Number(agent.usedBytes)];
  return {
    ready: agent.ready,
    reason: agent.reason.slice(0, longestReason),
    budgetBytes: budget,
    usedBytes: used,
    residentBytes: residentOf(agent).reduce((total, [, bytes]) => total + bytes, 0),
    percent: percentOf(used, budget),
    datasets: largestDatasets(agent, status),
    capabilities: agent.capabilities
      .slice(0, 16)
      .map(({ name, ready, reason }) => ({ name, ready, reason: reason.slice(0, longestReason) }))
      .sort((a, b) => (a.name < b.name ? -1 : 1)),
  };
}

export function readyCondition(
  agent: Pick<NodeStatus, 'ready' | 'reason'> | undefined,
  connected: boolean,
): ConditionState {
  if (!connected)
    return condition('Ready', 'Unknown', 'NoAgentAnswers', 'No agent of the cluster answers the operator');
  if (agent === undefined) {
    const where = 'status.nodes of the StorageCluster says how its pod is';
    return condition('Ready', 'False', 'NoAgent', `The agent of the node has not joined the cluster; ${where}`);
  }
  if (agent.ready) return condition('Ready', 'True', 'Ready', 'The agent serves');
  return condition('Ready', 'False', 'AgentNotReady', `The agent does not serve: ${agent.reason}`);
}

/** Datasets by resident bytes and name, for a stable list. */
function largestDatasets(agent: NodeStatus, status: ClusterStatus): CachedDataset[] {
  const cached = residentOf(agent).flatMap(([registered, residentBytes]) => {
    const split = splitRegisteredName(registered);
    return split === undefined || residentBytes === 0 ? [] : [{ registered, split, residentBytes }];
  });
  return cached.slice(0, maxDatasets).map(({ registered, split, residentBytes }) => {
    const dataset = status.datasets.get(registered);
    const bytes = Number(dataset?.bytes ?? 0n);
    const memoryBytes = Number(dataset?.residency.find(({ node }) => node === agent.node)?.memoryBytes ?? 0n);
    const inMemory = memoryBytes === 0 ? {} : { memoryBytes };
    return { ...split, bytes, residentBytes, ...inMemory, percent: percentOf(residentBytes, bytes) };
  });
}

function residentOf(agent: NodeStatus): [registered: string, bytes: number][] {
  const entries = Object.entries(agent.residentBytes).map(([name, bytes]): [string, number] => [name, Number(bytes)]);
  return entries.sort(([a, left], [b, right]) => right - left || (a < b ? -1 : 1));
}

function percentOf(part: number, whole: number): number {
  return whole === 0 ? 0 : Math.min(100, Math.floor((part / whole) * 100));
}
