import { splitKey } from '@hearth/common/kubernetes';
import type { CachePreload } from '@hearth/common/resources';
import { type NodeReadiness, plannedNodesOf } from '../preload/index.ts';
import type { GroupAction, Releasing } from './group_action.ts';
import { type GroupFacts, isOutdated, unplannable, unready } from './group_facts.ts';
import { isOfGate, newPreload, nodesChange, preloadChange } from './group_preload.ts';
import type { GroupState } from './group_state.ts';
import { type GatedMember, isStray } from './groups.ts';
import type { Plan } from './plan.ts';
import type { Wanted } from './planning_queue.ts';
import { plannedReasons } from './release_reason.ts';
import { waitOrRelease } from './wait_or_release.ts';

/** A group at one moment. Times are milliseconds since the epoch. */
export interface ObservedGroup {
  key: string;
  now: number;
  /** The waiting pods. */
  pods: readonly GatedMember[];
  /** Undefined: no pod waits. */
  facts: GroupFacts | undefined;
  /** Time for which it has had no pods at all, ms; undefined: it has some. */
  emptyMs: number | undefined;
  /** The CachePreload of the group's name, whoever made it. */
  preload: CachePreload | undefined;
  state: Readonly<GroupState>;
  /** The pods as the planner takes them; undefined: they cannot be planned yet. */
  wanted: Wanted | undefined;
  /** The plan for these pods. */
  plan: Plan | undefined;
  /** The last plan of the group, whichever pods it was for. */
  lastPlan: Plan | undefined;
  readiness: ReadonlyMap<string, NodeReadiness> | undefined;
  /** The nodes that belong into the spec of its CachePreload; undefined: the written ones stand. */
  nodes: readonly string[] | undefined;
  /** Pods are held back, those with an open gate included that the watch still shows as gated. */
  holds: boolean;
  /** Time since the last write of the nodes, ms. */
  nodesAgeMs: number;
  /** Value of the label kubernetes.io/hostname. */
  hostname: (node: string) => string | undefined;
}

/** How long a plan outlives its last pod: a replacement of the pod finds it again, ms. */
const lingerMs = 5_000;
/** How long a pod waits for objects that may be made together with it, ms. */
const provisionalMs = 5_000;
/** Pods that are released sooner hear nothing of having waited, ms. */
const quietMs = 2_000;
/** While no pod waits, the nodes follow pods as they are bound, of which a large group has many. Per node, and at least, ms. */
const msPerNode = 10;
const minPauseMs = 1_000;

/** Pure. The writes for a group, in order. */
export function planGroup(observed: ObservedGroup): GroupAction[] {
  const { facts, now } = observed;
  if (facts === undefined) return [...nodesOf(observed), ...restOf(observed)];
  return [
    { kind: 'follow', objects: facts.looked },
    ...lookAgainAt(facts.until, now),
    ...nodesOf(observed),
    ...waitingOf(observed, facts),
  ];
}

/** A plan that was made here, and is not going. */
function isOurs(preload: CachePreload | undefined): preload is CachePreload {
  return preload !== undefined && isOfGate(preload) && preload.metadata.deletionTimestamp === undefined;
}

function lookAgainAt(at: number, now: number): GroupAction[] {
  return at > now ? [{ kind: 'lookAgain', ms: at - now }] : [];
}

function restOf({ emptyMs, preload }: ObservedGroup): GroupAction[] {
  if (emptyMs === undefined) return [{ kind: 'rest' }];
  const forget: GroupAction = { kind: 'forget', gone: preload === undefined };
  if (!isOurs(preload)) return [forget];
  const left = lingerMs - emptyMs;
  return [forget, left > 0 ? { kind: 'lookAgain', ms: left } : { kind: 'deletePreload', preload }];
}

/** At once while pods wait for the bytes. */
function nodesOf({ preload, nodes, holds, nodesAgeMs }: ObservedGroup): GroupAction[] {
  if (nodes === undefined || !isOurs(preload)) return [];
  const change = nodesChange(preload, nodes, { inOrder: holds });
  if (change === undefined) return [];
  const left = Math.max(minPauseMs, nodes.length * msPerNode) - nodesAgeMs;
  return [!holds && left > 0 ? { kind: 'lookAgain', ms: left } : { kind: 'writeNodes', change }];
}

function waitingOf(observed: ObservedGroup, facts: GroupFacts): GroupAction[] {
  const { key, now, preload, pods, state } = observed;
  if (isStray(key)) return release(observed, withoutPlan('somebody gave it the gate by hand'));
  const provisional = facts.since + provisionalMs;
  if (facts.missing.length > 0 && now < provisional) return lookAgainAt(provisional, now);
  if (facts.datasets.size === 0) {
    return release(observed, freely('NoDataset', 'starts, as none of its volumes is one of a Dataset'));
  }
  if (facts.gate.mode === 'Off') return release(observed, freely('Off', 'starts, as its gate is Off now'));
  const why = unplannable(facts);
  if (why !== undefined) return release(observed, withoutPlan(why));
  // After its time a group uses the plan that there is, and asks for none.
  if (now >= facts.until) return goByPlan(observed, facts, true);
  if (preload !== undefined && !isOfGate(preload)) {
    return release(observed, withoutPlan(`CachePreload ${splitKey(key).name} belongs to another owner`));
  }
  if (isWithdrawn(pods, state.withdrawnAt)) {
    return release(observed, freely('Withdrawn', 'starts, as its CachePreload was deleted'));
  }
  // The watch shows its end, and then another one is made.
  if (preload?.metadata.deletionTimestamp !== undefined) return [];
  if (state.refused !== undefined) {
    return release(observed, withoutPlan(`the API server refuses its CachePreload: ${state.refused}`));
  }
  const { wanted } = observed;
  return [
    ...preloadOf(observed, facts),
    ...(wanted === undefined ? [] : [{ kind: 'choose' as const, wanted }]),
    ...goByPlan(observed, facts, false),
  ];
}

function goByPlan(observed: ObservedGroup, facts: GroupFacts, overdue: boolean): GroupAction[] {
  const { preload, state, plan, lastPlan, readiness, hostname } = observed;
  if (preload !== undefined && state.nodesRefused !== undefined) {
    return release(observed, withoutPlan(`the operator cannot write the nodes of its plan: ${state.nodesRefused}`));
  }
  const decision = waitOrRelease({
    gate: facts.gate,
    overdue,
    plan: plan ?? (overdue ? lastPlan : undefined),
    readiness: isOutdated(preload, facts.datasets) ? undefined : readiness,
    unready: unready(facts.datasets),
    formerNodes: preload === undefined ? [] : formerNodes(preload),
    hostname,
  });
  return decision.kind === 'wait' ? wait(observed, decision.message) : release(observed, decision);
}

/** After a moment each pod hears why, and again when more than a percentage or a size has changed. */
function wait({ now, pods, state }: ObservedGroup, message: string): GroupAction[] {
  const age = now - Math.min(...pods.map(({ createdAt }) => createdAt));
  if (age < quietMs) {
    return [
      { kind: 'wait', message, notify: [] },
      { kind: 'lookAgain', ms: quietMs - age },
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
  // Pods that came meanwhile have a plan of their own soon.
  return going.length < pods.length ? [action, { kind: 'lookAgain', ms: 0 }] : [action];
}

function withoutPlan(why: string): Releasing {
  return freely('NoPlan', `starts without waiting, as ${why}`);
}

function freely(reason: Releasing['reason'], message: string): Releasing {
  return { kind: 'release', reason, message, affinity: () => undefined };
}

/** Pods that were made after the deletion wait again. Creation has whole seconds. */
function isWithdrawn(pods: readonly GatedMember[], withdrawnAt: number | undefined): boolean {
  if (withdrawnAt === undefined) return false;
  return pods.every(({ createdAt }) => createdAt < Math.floor(withdrawnAt / 1000) * 1000);
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

/** How much of its bytes the nodes of a plan had when its status was written last. */
function formerNodes(preload: CachePreload): { name: string; percent: number }[] {
  const written = new Map(preload.status?.nodes?.map(({ name, percent }) => [name, percent]));
  return plannedNodesOf(preload).map((name) => ({ name, percent: written.get(name) ?? 0 }));
}
