import type { NodeStatus } from '@hearth/common/generated/hearth/v1/control.ts';
import type { Condition } from '@hearth/common/resources';
import type { ClusterStatus } from '../agents/index.ts';
import { type ConditionState, findCondition } from '../reconciler/index.ts';

/** Nodes that a message names. */
const maxNamed = 3;
const longestMessage = 4096;

/** A capability of nodes whose want is worth a condition of the whole cluster. */
interface Advice {
  type: string;
  capability: string;
  holds: { reason: string; message: string };
  /** `message`: what it means for users; the nodes and what to do follow. */
  lacks: { reason: string; message: string };
}

const advices: readonly Advice[] = [
  {
    type: 'DataPath',
    capability: 'fuse',
    holds: { reason: 'Ready', message: 'Datasets can be mounted on every node before they are complete there' },
    lacks: {
      reason: 'NoFuse',
      message: 'cannot mount datasets before they are complete there; complete ones can still be mounted',
    },
  },
  {
    type: 'Budgets',
    capability: 'budget',
    holds: { reason: 'Fit', message: 'The disks of all nodes hold the budgets' },
    lacks: { reason: 'LargerThanDisk', message: 'have smaller disks than their budget says' },
  },
  {
    type: 'Holders',
    capability: 'holder',
    holds: { reason: 'Current', message: 'The mount holders of all nodes are of the release of their agents' },
    lacks: {
      reason: 'Outdated',
      message: 'have a mount holder of another release than their agent (it keeps its mounts until its pod is deleted)',
    },
  },
  {
    type: 'Volumes',
    capability: 'volumes',
    holds: { reason: 'Alive', message: 'The mounts that pods were given are alive' },
    lacks: { reason: 'Rebound', message: 'have pods whose mounts died and were bound again' },
  },
];

/**
 * What agents lack though they serve. These conditions are for people to look at: they do not keep the StorageCluster
 * from being Ready. `before`: those that are written; they stay while no agent reports.
 */
export function adviceConditions(
  status: ClusterStatus | undefined,
  before: readonly Condition[] | undefined,
): ConditionState[] {
  return [
    ...advices.map((advice) => conditionOf(advice, status, findCondition(before, advice.type))),
    controlApi(status, findCondition(before, 'ControlApi')),
  ];
}

/** Whether the agents do all that the operator may ask for: not in the middle of an upgrade. */
function controlApi(status: ClusterStatus | undefined, before: Condition | undefined): ConditionState {
  const type = 'ControlApi';
  if (status?.connected !== true) {
    if (before !== undefined) return { type, status: before.status, reason: before.reason, message: before.message };
    return { type, status: 'Unknown', reason: 'NotSeen', message: 'No agent has answered yet' };
  }
  const { apiDifferences: all } = status;
  if (all.length === 0) {
    return {
      type,
      status: 'True',
      reason: 'Current',
      message: 'All agents support every feature of the control API that the operator uses',
    };
  }
  const more = all.length > maxNamed ? `; and ${all.length - maxNamed} more agents` : '';
  const message = `${all.slice(0, maxNamed).join('; ')}${more}`;
  return { type, status: 'False', reason: 'OtherRelease', message: message.slice(0, longestMessage) };
}

function conditionOf(
  { type, capability, holds, lacks }: Advice,
  status: ClusterStatus | undefined,
  before: Condition | undefined,
): ConditionState {
  const agents = [...(status?.nodes.values() ?? [])];
  const seen = agents.filter((agent) => capabilityOf(agent, capability) !== undefined);
  if (seen.length === 0 && before !== undefined) {
    return { type, status: before.status, reason: before.reason, message: before.message };
  }
  if (seen.length === 0) {
    return { type, status: 'Unknown', reason: 'NotSeen', message: 'No agent has reported on its machine yet' };
  }
  const lacking = seen.flatMap((agent) => {
    const found = capabilityOf(agent, capability);
    return found === undefined || found.ready ? [] : [`${agent.node}: ${found.reason}`];
  });
  if (lacking.length === 0) return { type, status: 'True', ...holds };
  const named = lacking.sort().slice(0, maxNamed).join('; ');
  const more = lacking.length > maxNamed ? `; and ${lacking.length - maxNamed} more` : '';
  const message = `${lacking.length} of ${seen.length} nodes ${lacks.message}: ${named}${more}`;
  return { type, status: 'False', reason: lacks.reason, message: message.slice(0, longestMessage) };
}

function capabilityOf(agent: NodeStatus, name: string) {
  return agent.capabilities.find((one) => one.name === name);
}
