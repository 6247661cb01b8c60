/** The shell around every reconciler: passes, finalizers, conditions, events, errors and requeues. */

export { condition, findCondition, writtenConditions } from './conditions.ts';
export { hasFinalizer, removeFinalizer } from './finalizer.ts';
export * from './pacing.ts';
export type * from './reconciler.ts';
export { reconcileKey, reconcileObject } from './shell.ts';
