import { listed } from '@hearth/common';
import type { NodeStatus } from '@hearth/common/generated/hearth/v1/control.ts';
import type { Condition, StorageCluster, StorageClusterSpec } from '@hearth/common/resources';
import type { ClusterStatus } from '../agents/index.ts';
import { type ConditionState, condition, findCondition } from '../reconciler/index.ts';
import type { Observation } from './observation.ts';

/** A capability of nodes that has a condition of the cluster. */
interface Advice {
  type: string;
  holds: { reason: string; message: string };
  lacks: readonly Lack[];
  /** True when reports of agents that went away do not count. */
  isLive?: boolean;
  /** Absent: always. */
  isRequested?: (spec: StorageClusterSpec) => boolean;
}

/** Changes of these conditions also cause events. */
export const announcedConditions = ['Rdma', 'Disks', 'StoreData'];

type Lack = { capability: string; reason: string; message: string };

const advices: readonly Advice[] = [
  {
    type: 'DataPath',
    holds: { reason: 'Ready', message: 'Datasets can be mounted on every node before they are complete there' },
    lacks: [
      {
        capability: 'fuse',
        reason: 'NoFuse',
        message: 'cannot mount datasets before they are complete there; complete ones can still be mounted',
      },
    ],
  },
  {
    type: 'Budgets',
    holds: { reason: 'Fit', message: 'The disks of all nodes hold the budgets' },
    lacks: [{ capability: 'budget', reason: 'LargerThanDisk', message: 'have smaller disks than their budget says' }],
  },
  {
    type: 'Disks',
    holds: { reason: 'Working', message: 'All cache directories take new files' },
    lacks: [
      {
        capability: 'cache-directories',
        reason: 'Failing',
        message: 'have a cache directory whose disk fails (files go to the others)',
      },
    ],
  },
  {
    type: 'Holders',
    holds: { reason: 'Current', message: 'The mount holders of all nodes are of the release of their agents' },
    lacks: [
      {
        capability: 'holder',
        reason: 'Outdated',
        message:
          'have a mount holder of another release than their agent (it keeps its mounts until its pod is deleted)',
      },
    ],
  },
  {
    type: 'Volumes',
    holds: { reason: 'Alive', message: 'The mounts of all pods are alive' },
    lacks: [
      { capability: 'lost-volumes', reason: 'Lost', message: 'have pods whose mounts are dead' },
      { capability: 'volumes', reason: 'Rebound', message: 'have pods whose mounts died and were bound again' },
    ],
    isLive: true,
  },
  {
    type: 'StoreSpace',
    holds: { reason: 'Enough', message: 'The store uses less than half of its quota' },
    lacks: [{ capability: 'store-space', reason: 'Filling', message: 'report on the store' }],
  },
  {
    type: 'Rdma',
    holds: { reason: 'Ready', message: 'The nodes that are to read from each other by RDMA can' },
    lacks: [{ capability: 'rdma-reads', reason: 'NotUsed', message: 'read from others over TCP instead of RDMA' }],
    isRequested: ({ nodeGroups }) => nodeGroups.some(({ rdma }) => rdma !== undefined),
  },
];

/** These conditions do not affect Ready. Written ones stay while no agent reports, except live ones. */
export function adviceConditions(
  { status, nodes }: Pick<Observation, 'status' | 'nodes'>,
  cluster: Pick<StorageCluster, 'spec' | 'status'>,
): ConditionState[] {
  const before = cluster.status?.conditions;
  const silent = nodes.filter(({ ready }) => !ready).map(({ name }) => name);
  return [
    ...advices
      .filter(({ isRequested }) => isRequested === undefined || isRequested(cluster.spec))
      .map((advice) => conditionOf(advice, status, silent, findCondition(before, advice.type))),
    controlApi(status, findCondition(before, 'ControlApi')),
  ];
}

/** False in the middle of an upgrade, when some agent lacks features. */
function controlApi(status: ClusterStatus | undefined, before: Condition | undefined): ConditionState {
  const type = 'ControlApi';
  if (status?.connected !== true) {
    if (before !== undefined) return before;
    return condition(type, 'Unknown', 'NotSeen', 'No agent has answered yet');
  }
  const { apiDifferences: all } = status;
  if (all.length === 0) {
    const message = 'All agents support every feature of the control API that the operator uses';
    return condition(type, 'True', 'Current', message);
  }
  return condition(type, 'False', 'OtherRelease', listed(all, { separator: '; ', what: 'agents' }));
}

function conditionOf(
  { type, holds, lacks, isLive = false }: Advice,
  status: ClusterStatus | undefined,
  silent: readonly string[],
  before: Condition | undefined,
): ConditionState {
  const agents = [...(status?.nodes.values() ?? [])].filter(({ node }) => !isLive || !silent.includes(node));
  const seen = agents.filter((agent) => lacks.some(({ capability }) => capabilityOf(agent, capability) !== undefined));
  const lack = lacks.find(({ capability }) => seen.some((agent) => capabilityOf(agent, capability)?.ready === false));
  if (lack !== undefined) return lacking(type, lack, seen);
  if (isLive && silent.length > 0) {
    const message = `Unknown, because the agents of these nodes do not serve: ${listed(silent.toSorted())}`;
    return condition(type, 'Unknown', 'AgentsNotReady', message);
  }
  if (seen.length === 0) {
    return before ?? condition(type, 'Unknown', 'NotSeen', 'No agent has reported on its machine yet');
  }
  return condition(type, 'True', holds.reason, holds.message);
}

function lacking(type: string, { capability, reason, message }: Lack, seen: readonly NodeStatus[]): ConditionState {
  const nodes = seen.flatMap((agent) => {
    const found = capabilityOf(agent, capability);
    return found === undefined || found.ready ? [] : [`${agent.node}: ${found.reason}`];
  });
  const text = `${nodes.length} of ${seen.length} nodes ${message}: ${listed(nodes.sort(), { separator: '; ' })}`;
  return condition(type, 'False', reason, text);
}

function capabilityOf(agent: NodeStatus, name: string) {
  return agent.capabilities.find((one) => one.name === name);
}
