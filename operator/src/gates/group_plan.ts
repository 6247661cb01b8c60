import type { CachePreload } from '@hearth/common/resources';
import { decide, type GroupView, type PlanStep, type Released } from './group_decision.ts';
import { isOfGate } from './group_preload.ts';

/** A group at one moment: with pods that wait, or without. */
export type ObservedGroup =
  | { kind: 'waiting'; view: GroupView }
  /** `emptyMs`: since when it has had no pods at all, ms ago; undefined: it has some. */
  | { kind: 'idle'; emptyMs: number | undefined; preload: CachePreload | undefined };

export type GroupAction =
  /** In exactly this time, ms, and not about then. */
  | { kind: 'lookAgain'; ms: number }
  | { kind: 'release'; view: GroupView; decision: Released }
  | { kind: 'writePreload'; write: NonNullable<PlanStep['preload']> }
  /** Has the pods planned, and then sees whether they may go. */
  | { kind: 'judge'; view: GroupView; step: PlanStep }
  /** Nothing waits any more. `empty`: no pod is left. */
  | { kind: 'rest'; empty: boolean }
  | { kind: 'deletePreload'; preload: CachePreload };

/** How long a plan outlives its last pod: one that is replaced finds it again, ms. */
const lingerMs = 5_000;

/** Pure. What is done for a group, in order. */
export function planGroup(observed: ObservedGroup): GroupAction[] {
  if (observed.kind === 'waiting') return planWaiting(observed.view);
  const { emptyMs, preload } = observed;
  const rest: GroupAction = { kind: 'rest', empty: emptyMs !== undefined };
  if (emptyMs === undefined || !isOurs(preload)) return [rest];
  const left = lingerMs - emptyMs;
  return [rest, left > 0 ? { kind: 'lookAgain', ms: left } : { kind: 'deletePreload', preload }];
}

/** A plan that was made here, and is not going. */
export function isOurs(preload: CachePreload | undefined): preload is CachePreload {
  return preload !== undefined && isOfGate(preload) && preload.metadata.deletionTimestamp === undefined;
}

function planWaiting(view: GroupView): GroupAction[] {
  const { facts, now } = view;
  const lookAgain = (at: number): GroupAction[] => (at > now ? [{ kind: 'lookAgain', ms: at - now }] : []);
  const actions = lookAgain(facts.until);
  const decision = decide(view);
  switch (decision.kind) {
    case 'later':
      if (decision.again !== undefined) actions.push(...lookAgain(decision.again));
      return actions;
    case 'release':
      return [...actions, { kind: 'release', view, decision }];
    case 'plan':
      if (decision.preload !== undefined) actions.push({ kind: 'writePreload', write: decision.preload });
      return [...actions, { kind: 'judge', view, step: decision }];
  }
}
