import type { EventType } from '@hearth/common/kubernetes';
import type { StorageCluster } from '@hearth/common/resources';
import type { ClusterStatus } from '../agents/index.ts';
import type { NodeFacts } from '../kubernetes/index.ts';
import { type Copy, copyState } from './copy.ts';
import { type JoinDemand, joinDemands } from './join.ts';
import type { LastCopy } from './leaving.ts';
import { decideTaint } from './taint.ts';

/** A node at one moment. Times are milliseconds since the epoch. */
export interface ObservedNode {
  now: number;
  /** The StorageCluster that it belongs to. */
  cluster: StorageCluster | undefined;
  /** The report of the cluster's agents; undefined: none answers. */
  status: ClusterStatus | undefined;
  /** When a taint was seen on it after it had been seen without. */
  taintedAgainAt: number | undefined;
  /** Copies that are to be moved before it goes; undefined: it stays, or no agent answers. */
  copies: readonly LastCopy[] | undefined;
  /** The last events on its arrival and on its leaving. */
  reported: Partial<Record<Passage, string>>;
}

export type Passage = 'join' | 'leave';

export type NodeAction =
  | { kind: 'removeTaint'; cluster: StorageCluster; demands: readonly JoinDemand[]; late: boolean }
  /** To its agent: zone and rack. */
  | { kind: 'reportPlace'; cluster: string }
  | { kind: 'requestCopy'; cluster: string; copy: Copy; job: string }
  | { kind: 'event'; passage: Passage; type: EventType; reason: string; message: string };

/** How often a copy that is under way or cannot be made is looked at, ms; the agents' status reports the others. */
const lookAgainMs = 15_000;

/**
 * Pure. What is done for a node: its startup taint goes when it holds what is asked of it, its agent hears of zone and
 * rack, and last copies move off it before it goes.
 */
export function planNode(
  node: NodeFacts,
  seen: ObservedNode,
): { actions: NodeAction[]; requeueAfterMs: number | undefined } {
  const { cluster, status, copies, now } = seen;
  if (cluster === undefined) return { actions: [], requeueAfterMs: undefined };
  const agent = status?.nodes.get(node.name);
  const ready = agent?.ready === true ? status : undefined;
  const demands = ready === undefined || !node.tainted ? [] : joinDemands(cluster.spec.joinPolicies, node, ready);
  const missing = demands.filter(({ complete }) => !complete);
  const arrival = { agentReady: ready !== undefined, holdsDemanded: missing.length === 0 };
  const decision = decideTaint(node, cluster, arrival, sinceWhen(node, cluster, seen), now);
  const actions: NodeAction[] = [];
  const waits: number[] = [];
  if (decision.kind === 'remove') actions.push({ kind: 'removeTaint', cluster, demands, late: decision.late });
  if (agent?.ready === true && (agent.zone !== node.zone || agent.rack !== node.rack)) {
    actions.push({ kind: 'reportPlace', cluster: cluster.metadata.name });
  }
  if (decision.kind === 'wait') {
    waits.push(Math.max(1_000, decision.ms));
    if (ready !== undefined) {
      actions.push(...fetchDemanded(node, missing, seen));
      waits.push(lookAgainMs);
    }
  }
  if (copies !== undefined) actions.push(...moveCopies(copies, seen));
  if (copies !== undefined && copies.length > 0) waits.push(lookAgainMs);
  return { actions, requeueAfterMs: waits.length === 0 ? undefined : Math.min(...waits) };
}

/** When the node or its cluster came, or the taint, if that was put back later. */
function sinceWhen({ createdAt }: NodeFacts, { metadata }: StorageCluster, { taintedAgainAt = 0 }: ObservedNode) {
  const came = [createdAt, metadata.creationTimestamp ?? ''].map((time) => Date.parse(time) || 0);
  return Math.max(...came, taintedAgainAt);
}

function fetchDemanded({ name: node }: NodeFacts, missing: readonly JoinDemand[], seen: ObservedNode): NodeAction[] {
  const wanted = missing.map(({ dataset: name, known: dataset, trouble }) => {
    return { name, copy: dataset && { purpose: 'join', dataset, node }, trouble };
  });
  const names = missing.map(({ dataset }) => dataset).join(', ');
  return bring(
    'join',
    wanted,
    'JoinWaits',
    `Pods may run here when the node holds ${names}, as the join policies ask`,
    seen,
  );
}

function moveCopies(copies: readonly LastCopy[], seen: ObservedNode): NodeAction[] {
  if (copies.length === 0) {
    const message = 'Every Dataset that keeps its last copy has one on a node that stays';
    return seen.reported.leave === undefined ? [] : bring('leave', [], 'LastCopiesMoved', message, seen);
  }
  const wanted = copies.map(({ dataset, target: node, trouble }) => {
    return { name: dataset.name, copy: node === undefined ? undefined : { purpose: 'keep', dataset, node }, trouble };
  });
  const moves = copies.flatMap(({ dataset, target }) => (target === undefined ? [] : `${dataset.name} to ${target}`));
  const message = `The node is to go and holds the only complete copies of some Datasets; they are copied: ${moves.join(', ') || 'none'}`;
  return bring('leave', wanted, 'LastCopiesMove', message, seen);
}

/** Requests for the copies, and an event with what is in the way of them: once as long as it stays the same. */
function bring(
  passage: Passage,
  /** `name`: of the Dataset. `copy` undefined: it cannot be brought, for the trouble. */
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
