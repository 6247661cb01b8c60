import { splitKey } from '@hearth/common/kubernetes';
import type { CachePreload } from '@hearth/common/resources';
import { type NodeReadiness, plannedNodesOf } from '../preload/index.ts';
import { clockAnnotation, foreignGates, type GateClock, gateClock, isHeld } from './gate_clock.ts';
import { type GroupAction, type GroupState, plannedReasons, type Releasing } from './group_action.ts';
import { describeUnready, type GroupFacts, isOutdated, whyHopeless, whyUnplannable } from './group_facts.ts';
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
  const { facts, now, pods, preload } = observed;
  if (facts === undefined) return [...nodesOf(observed), ...restOf(observed)];
  const clock = gateClock(pods, facts.timeoutMs, preload, now);
  return [
    { kind: 'follow', objects: facts.objects },
    ...(clock.until === undefined ? [] : requeueAt(clock.until, now)),
    ...nodesOf(observed),
    ...waitingOf(observed, facts, clock),
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

function waitingOf(observed: ObservedGroup, facts: GroupFacts, clock: GateClock): GroupAction[] {
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
  const hopeless = whyHopeless(facts.datasets);
  if (hopeless !== undefined && now < provisional) return requeueAt(provisional, now);
  if (hopeless !== undefined) return release(observed, withoutPlan(hopeless));
  // After the timeout the group uses its present plan. Pods that others hold have not begun to wait.
  if (clock.until !== undefined && now >= clock.until) {
    return followPlan({ ...observed, pods: pods.filter((pod) => !isHeld(pod)) }, facts, true);
  }
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
    ...preloadOf(observed, facts, clock),
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
  return decision.kind === 'wait' ? wait(observed, decision.message + holders(observed)) : release(observed, decision);
}

/** Of pods that others hold, all of them: the end of a sentence. */
function holders({ pods }: ObservedGroup): string {
  if (!pods.every(isHeld)) return '';
  const names = new Set(pods.flatMap(({ gated }) => foreignGates(gated)));
  return `; the time of the gate does not run, as ${[...names].sort().join(', ')} holds the pod`;
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

function preloadOf(
  { key, pods, preload }: ObservedGroup,
  { gate, datasets }: GroupFacts,
  { mark }: GateClock,
): GroupAction[] {
  const names = Array.from(datasets.values(), ({ metadata }) => metadata.name);
  const marks = mark === undefined ? {} : { [clockAnnotation]: mark };
  if (preload === undefined) {
    const { namespace = '', name } = splitKey(key);
    return [{ kind: 'createPreload', object: newPreload({ namespace, name }, pods, gate, names, marks) }];
  }
  const change = preloadChange(preload, pods, gate, names);
  if (change !== undefined) return [{ kind: 'patchPreload', change }];
  if (mark === undefined) return [];
  const { uid } = preload.metadata;
  return [{ kind: 'patchPreload', change: { metadata: { uid, annotations: marks } } }];
}

function formerNodes(preload: CachePreload): { name: string; percent: number }[] {
  const written = new Map(preload.status?.nodes?.map(({ name, percent }) => [name, percent]));
  return plannedNodesOf(preload).map((name) => ({ name, percent: written.get(name) ?? 0 }));
}
