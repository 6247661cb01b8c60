import { splitKey } from '@hearth/common/kubernetes';
import type { CachePreload } from '@hearth/common/resources';
import { clusterOf, type GroupFacts, unplannable, unready } from './group_facts.ts';
import { isOfGate, newPreload, preloadChange } from './group_preload.ts';
import { type GatedMember, isStray } from './groups.ts';
import type { Wanted } from './planning_queue.ts';
import { podGroups } from './pod_group.ts';
import type { Verdict } from './verdict.ts';

/** A group at one moment. */
export interface GroupView {
  key: string;
  /** Milliseconds since the epoch, as all times here. */
  now: number;
  /** The waiting pods: at least one. */
  pods: readonly GatedMember[];
  facts: GroupFacts;
  /** The CachePreload of the group's name, whoever made it. */
  preload: CachePreload | undefined;
  /** When one of that name was deleted last. */
  withdrawnAt: number | undefined;
}

export type Released = Extract<Verdict, { kind: 'release' }>;

/** The work for a group that must precede the decision on its pods. */
export interface PlanStep {
  kind: 'plan';
  /** The time of its gate is over: a plan that there is is used, and none is asked for. */
  overdue: boolean;
  preload: { kind: 'create'; object: CachePreload } | { kind: 'patch'; change: object } | undefined;
  wanted: Wanted | undefined;
  /** As `unready`: what keeps it from being planned. */
  waitsFor: string;
}

export type GroupDecision =
  /** It is too early. `again`: when to look; undefined: what is waited for wakes the group. */
  { kind: 'later'; again: number | undefined } | Released | PlanStep;

/** How long a pod waits for objects that may be made together with it, ms. */
const provisionalMs = 5_000;

/** Pure. */
export function decide({ key, now, pods, facts, preload, withdrawnAt }: GroupView): GroupDecision {
  if (isStray(key)) return noPlan('it was given the gate by hand');
  const again = facts.since + provisionalMs;
  if (facts.missing.length > 0 && now < again) return { kind: 'later', again };
  if (facts.datasets.size === 0) return freely('NoDataset', 'starts, as none of its volumes is one of a Dataset');
  if (facts.gate.mode === 'Off') return freely('Off', 'starts, as its gate is Off now');
  const why = unplannable(facts);
  if (why !== undefined) return noPlan(why);
  const waitsFor = unready(facts.datasets);
  if (now >= facts.until) return { kind: 'plan', overdue: true, preload: undefined, wanted: undefined, waitsFor };
  if (preload !== undefined && !isOfGate(preload)) {
    return noPlan(`CachePreload ${splitKey(key).name} belongs to another owner`);
  }
  if (isWithdrawn(pods, withdrawnAt)) return freely('Withdrawn', 'starts, as its CachePreload was deleted');
  // After its deletion another one is made.
  if (preload?.metadata.deletionTimestamp !== undefined) return { kind: 'later', again: undefined };
  return {
    kind: 'plan',
    overdue: false,
    preload: writeOf(key, pods, facts, preload),
    wanted: waitsFor === '' ? wantedOf(key, pods, facts) : undefined,
    waitsFor,
  };
}

export function noPlan(why: string): Released {
  return freely('NoPlan', `starts without waiting, as ${why}`);
}

function freely(reason: Released['reason'], message: string): Released {
  return { kind: 'release', reason, message, affinity: () => undefined };
}

/** Pods that were made after the deletion wait again. Creation has whole seconds. */
function isWithdrawn(pods: readonly GatedMember[], withdrawnAt: number | undefined): boolean {
  if (withdrawnAt === undefined) return false;
  return pods.every(({ createdAt }) => createdAt < Math.floor(withdrawnAt / 1000) * 1000);
}

function writeOf(
  key: string,
  pods: readonly GatedMember[],
  { gate, datasets }: GroupFacts,
  preload: CachePreload | undefined,
): PlanStep['preload'] {
  const names = Array.from(datasets.values(), ({ metadata }) => metadata.name);
  if (preload === undefined) {
    const { namespace = '', name } = splitKey(key);
    return { kind: 'create', object: newPreload({ namespace, name }, pods, gate, names) };
  }
  const change = preloadChange(preload, pods, gate, names);
  return change && { kind: 'patch', change };
}

function wantedOf(key: string, pods: readonly GatedMember[], { gate, datasets, foreign }: GroupFacts): Wanted {
  const [first] = datasets.values();
  return {
    cluster: (first && clusterOf(first)) ?? '',
    parts: podGroups({ key, pods, gate, datasets: [...datasets.keys()], foreign }),
    datasets: new Map([...datasets].map(([name, { status }]) => [name, status?.bytes ?? 0])),
  };
}
