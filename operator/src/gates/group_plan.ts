import { splitKey } from '@hearth/common/kubernetes';
import type { CachePreload } from '@hearth/common/resources';
import { type NodeReadiness, plannedNodesOf } from '../preload/index.ts';
import { type GroupAction, type GroupState, plannedReasons, type Releasing } from './group_action.ts';
import { describeUnready, type GroupFacts, isOutdated, whyUnplannable } from './group_facts.ts';
import { isOfGate, newPreload, nodesChange, preloadChange } from './group_preload.ts';
import { type GatedMember, isStray, isWithdrawn } from './groups.ts';
import type { Plan } from './plan.ts';
import type { Wanted } from './planning_queue.ts';
import { waitOrRelease } from './wait_or_release.ts';

/** Times are milliseconds since the epoch. */
export interface ObservedGroup {
  key: string;
  now: number;
  pods: readonly GatedMember[];
  facts: GroupFacts | undefined;
  /** Time without any pods, ms; undefined while the group has pods. */
  emptyMs: number | undefined;
  /** The CachePreload of the group's name, of any owner. */
  preload: CachePreload | undefined;
  state: Readonly<GroupState>;
  /** The planner's input; undefined while the pods cannot be planned. */
  wanted: Wanted | undefined;
  plan: Plan | undefined;
  /** The last plan, perhaps for other pods. */
  lastPlan: Plan | undefined;
  readiness: ReadonlyMap<string, NodeReadiness> | undefined;
  /** The nodes for the spec of the CachePreload; undefined keeps the written nodes. */
  nodes: readonly string[] | undefined;
  /** True while the watch shows gated pods. */
  isHolding: boolean;
  nodesAgeMs: number;
  hostname: (node: string) => string | undefined;
}

/** A plan outlives its last pod by this time, so that a replacement finds the plan, ms. */
const lingerMs = 5_000;
/** Objects created together with a pod may appear this much later, ms. */
const provisionalMs = 5_000;
/** Pods that wait for less get no event, ms. */
const quietMs = 2_000;
/** The least time between two writes of nodes while no pod waits, ms. */
const msPerNode = 10;
const minPauseMs = 1_000;

export function planGroup(observed: ObservedGroup): GroupAction[] {
  const { facts, now } = observed;
  if (facts === undefined) return [...nodesOf(observed), ...restOf(observed)];
  return [
    { kind: 'follow', objects: facts.objects },
    ...requeueAt(facts.until, now),
    ...nodesOf(observed),
    ...waitingOf(observed, facts),
  ];
}

/** A plan of the operator that is not being deleted. */
function isOurs(preload: CachePreload | undefined): preload is CachePreload {
  return preload !== undefined && isOfGate(preload) && preload.metadata.deletionTimestamp === undefined;
}

function requeueAt(at: number, now: number): GroupAction[] {
  return at > now ? [{ kind: 'requeueAfter', ms: at - now }] : [];
}

function restOf({ emptyMs, preload }: ObservedGroup): GroupAction[] {
  if (emptyMs === undefined) return [{ kind: 'idle' }];
  const forget: GroupAction = { kind: 'forget', gone: preload === undefined };
  if (!isOurs(preload)) return [forget];
  const left = lingerMs - emptyMs;
  return [forget, left > 0 ? { kind: 'requeueAfter', ms: left } : { kind: 'deletePreload', preload }];
}

function nodesOf({ preload, nodes, isHolding, nodesAgeMs }: ObservedGroup): GroupAction[] {
  if (nodes === undefined || !isOurs(preload)) return [];
  const change = nodesChange(preload, nodes, { inOrder: isHolding });
  if (change === undefined) return [];
  const left = Math.max(minPauseMs, nodes.length * msPerNode) - nodesAgeMs;
  return [!isHolding && left > 0 ? { kind: 'requeueAfter', ms: left } : { kind: 'writeNodes', change }];
}

function waitingOf(observed: ObservedGroup, facts: GroupFacts): GroupAction[] {
  const { key, now, preload, pods, state } = observed;
  if (isStray(key)) return release(observed, withoutPlan('somebody gave it the gate by hand'));
  const provisional = facts.since + provisionalMs;
  if (facts.missing.length > 0 && now < provisional) return requeueAt(provisional, now);
  if (facts.datasets.size === 0) {
    return release(observed, releaseFreely('NoDataset', 'starts, as none of its volumes is one of a Dataset'));
  }
  if (facts.gate.mode === 'Off') return release(observed, releaseFreely('Off', 'starts, as its gate is Off now'));
  const why = whyUnplannable(facts);
  if (why !== undefined) return release(observed, withoutPlan(why));
  // After the timeout the group uses its present plan.
  if (now >= facts.until) return followPlan(observed, facts, true);
  if (preload !== undefined && !isOfGate(preload)) {
    return release(observed, withoutPlan(`CachePreload ${splitKey(key).name} belongs to another owner`));
  }
  if (preload !== undefined && isWithdrawn(pods, preload.metadata.deletionTimestamp)) {
    return release(observed, releaseFreely('Withdrawn', 'starts, as its CachePreload was deleted'));
  }
  // The deletion starts another pass, which creates a new one.
  if (preload?.metadata.deletionTimestamp !== undefined) return [];
  if (state.refused !== undefined) {
    return release(observed, withoutPlan(`the API server refuses its CachePreload: ${state.refused}`));
  }
  const { wanted } = observed;
  return [
    ...preloadOf(observed, facts),
    ...(wanted === undefined ? [] : [{ kind: 'choose' as const, wanted }]),
    ...followPlan(observed, facts, false),
  ];
}

function followPlan(observed: ObservedGroup, facts: GroupFacts, overdue: boolean): GroupAction[] {
  const { preload, state, plan, lastPlan, readiness, hostname } = observed;
  if (preload !== undefined && state.nodesRefused !== undefined) {
    return release(observed, withoutPlan(`the operator cannot write the nodes of its plan: ${state.nodesRefused}`));
  }
  const decision = waitOrRelease({
    gate: facts.gate,
    overdue,
    plan: plan ?? (overdue ? lastPlan : undefined),
    readiness: isOutdated(preload, facts.datasets) ? undefined : readiness,
    unready: describeUnready(facts.datasets),
    formerNodes: preload === undefined ? [] : formerNodes(preload),
    hostname,
  });
  return decision.kind === 'wait' ? wait(observed, decision.message) : release(observed, decision);
}

/** Pods get an event after a moment, and again when the message changes in more than its figures. */
function wait({ now, pods, state }: ObservedGroup, message: string): GroupAction[] {
  const age = now - Math.min(...pods.map(({ createdAt }) => createdAt));
  if (age < quietMs) {
    return [
      { kind: 'wait', message, notify: [] },
      { kind: 'requeueAfter', ms: quietMs - age },
    ];
  }
  return [{ kind: 'wait', message, notify: state.reported === withoutFigures(message) ? [] : pods }];
}

export function withoutFigures(message: string): string {
  return message.replace(/[\d.]+ (%|[KMGTPE]?i?B\b|bytes?)/g, '#');
}

function release({ pods, plan }: ObservedGroup, decision: Releasing): GroupAction[] {
  const planned = plannedReasons.has(decision.reason) ? plan?.pods : undefined;
  const going = pods.filter(({ name }) => planned === undefined || planned.has(name));
  const action: GroupAction = { ...decision, pods: going };
  // New pods soon get a plan of their own.
  return going.length < pods.length ? [action, { kind: 'requeueAfter', ms: 0 }] : [action];
}

function withoutPlan(why: string): Releasing {
  return releaseFreely('NoPlan', `starts without waiting, as ${why}`);
}

function releaseFreely(reason: Releasing['reason'], message: string): Releasing {
  return { kind: 'release', reason, message, affinity: () => undefined };
}

function preloadOf({ key, pods, preload }: ObservedGroup, { gate, datasets }: GroupFacts): GroupAction[] {
  const names = Array.from(datasets.values(), ({ metadata }) => metadata.name);
  if (preload === undefined) {
    const { namespace = '', name } = splitKey(key);
    return [{ kind: 'createPreload', object: newPreload({ namespace, name }, pods, gate, names) }];
  }
  const change = preloadChange(preload, pods, gate, names);
  return change === undefined ? [] : [{ kind: 'patchPreload', change }];
}

function formerNodes(preload: CachePreload): { name: string; percent: number }[] {
  const written = new Map(preload.status?.nodes?.map(({ name, percent }) => [name, percent]));
  return plannedNodesOf(preload).map((name) => ({ name, percent: written.get(name) ?? 0 }));
}
