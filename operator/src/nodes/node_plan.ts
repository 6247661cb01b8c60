import type { EventType } from '@hearth/common/kubernetes';
import type { StorageCluster } from '@hearth/common/resources';
import type { ClusterStatus } from '../agents/index.ts';
import type { NodeFacts } from '../kubernetes/index.ts';
import { type Copy, copyState } from './copy.ts';
import { type JoinDemand, joinDemands } from './join.ts';
import type { LastCopy } from './kept_copies.ts';
import { decideTaint } from './taint.ts';

/** Times are milliseconds since the epoch. */
export interface ObservedNode {
  now: number;
  cluster: StorageCluster | undefined;
  status: ClusterStatus | undefined;
  /** When the taint came back after its removal. */
  taintedAgainAt: number | undefined;
  /** Copies to move before the node leaves; undefined when it stays, or no agent answers. */
  copies: readonly LastCopy[] | undefined;
  reported: Partial<Record<Passage, string>>;
}

export type Passage = 'join' | 'leave';

export type NodeAction =
  | { kind: 'removeTaint'; cluster: StorageCluster; demands: readonly JoinDemand[]; late: boolean }
  | { kind: 'reportPlace'; cluster: string }
  | { kind: 'requestCopy'; cluster: string; copy: Copy; job: string }
  | { kind: 'event'; passage: Passage; type: EventType; reason: string; message: string };

/** The pause between two looks at running or failed copies, ms. */
const recheckMs = 15_000;

/**
 * Pure. Removes the startup taint when the node holds the required Datasets, tells the agent its zone and rack, and
 * moves last copies off a leaving node.
 */
export function planNode(
  node: NodeFacts,
  observed: ObservedNode,
): { actions: NodeAction[]; requeueAfterMs: number | undefined } {
  const { cluster, status, copies, now } = observed;
  if (cluster === undefined) return { actions: [], requeueAfterMs: undefined };
  const agent = status?.nodes.get(node.name);
  const ready = agent?.ready === true ? status : undefined;
  const demands = ready === undefined || !node.tainted ? [] : joinDemands(cluster.spec.joinPolicies, node, ready);
  const missing = demands.filter(({ complete }) => !complete);
  const arrival = { agentReady: ready !== undefined, holdsDemanded: missing.length === 0 };
  const decision = decideTaint(node, cluster, arrival, waitingSince(node, cluster, observed), now);
  const actions: NodeAction[] = [];
  const waits: number[] = [];
  if (decision.kind === 'remove') actions.push({ kind: 'removeTaint', cluster, demands, late: decision.late });
  if (agent?.ready === true && (agent.zone !== node.zone || agent.rack !== node.rack)) {
    actions.push({ kind: 'reportPlace', cluster: cluster.metadata.name });
  }
  if (decision.kind === 'wait') {
    waits.push(Math.max(1_000, decision.ms));
    if (ready !== undefined) {
      actions.push(...joinActions(node, missing, observed));
      waits.push(recheckMs);
    }
  }
  if (copies !== undefined) actions.push(...leaveActions(copies, observed));
  if (copies !== undefined && copies.length > 0) waits.push(recheckMs);
  return { actions, requeueAfterMs: waits.length === 0 ? undefined : Math.min(...waits) };
}

/** The latest of the creation of node and cluster, and the return of the taint. */
function waitingSince({ createdAt }: NodeFacts, { metadata }: StorageCluster, { taintedAgainAt = 0 }: ObservedNode) {
  const came = [createdAt, metadata.creationTimestamp ?? ''].map((time) => Date.parse(time) || 0);
  return Math.max(...came, taintedAgainAt);
}

function joinActions({ name: node }: NodeFacts, missing: readonly JoinDemand[], observed: ObservedNode): NodeAction[] {
  const wanted = missing.map(({ dataset: name, known: dataset, trouble }) => {
    return { name, copy: dataset && { purpose: 'join', dataset, node }, trouble };
  });
  const names = missing.map(({ dataset }) => dataset).join(', ');
  const message = `Pods may run here when the node holds ${names}, as the join policies ask`;
  return copyActions('join', wanted, 'JoinWaits', message, observed);
}

function leaveActions(copies: readonly LastCopy[], observed: ObservedNode): NodeAction[] {
  if (copies.length === 0) {
    const message = 'Every Dataset that keeps its last copy has one on a node that stays';
    return observed.reported.leave === undefined ? [] : copyActions('leave', [], 'LastCopiesMoved', message, observed);
  }
  const wanted = copies.map(({ dataset, target: node, trouble }) => {
    return { name: dataset.name, copy: node === undefined ? undefined : { purpose: 'keep', dataset, node }, trouble };
  });
  const moves = copies.flatMap(({ dataset, target }) => (target === undefined ? [] : `${dataset.name} to ${target}`));
  const message = `The node is to go and holds the only complete copies of some Datasets; they are copied: ${moves.join(', ') || 'none'}`;
  return copyActions('leave', wanted, 'LastCopiesMove', message, observed);
}

/** Requests copies, and reports obstacles once for each text. */
function copyActions(
  passage: Passage,
  /** `copy` is undefined when `trouble` prevents the copy. */
  wanted: readonly { name: string; copy: Copy | undefined; trouble: string }[],
  reason: string,
  text: string,
  { cluster, status, reported, now }: ObservedNode,
): NodeAction[] {
  const actions: NodeAction[] = [];
  const troubles: string[] = [];
  for (const { name, copy, trouble } of wanted) {
    const state = copy && copyState(status?.jobs ?? new Map(), copy, now);
    if (copy !== undefined && state?.kind === 'due') {
      actions.push({ kind: 'requestCopy', cluster: cluster?.metadata.name ?? '', copy, job: state.job });
    }
    const why = state?.kind === 'failed' ? state.message : trouble;
    if (why !== '') troubles.push(`${name}: ${why}`);
  }
  const message = troubles.length === 0 ? text : `${text}. In the way: ${troubles.join('; ')}`;
  if (reported[passage] === message) return actions;
  return [...actions, { kind: 'event', passage, type: troubles.length === 0 ? 'Normal' : 'Warning', reason, message }];
}
