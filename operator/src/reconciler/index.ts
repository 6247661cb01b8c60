/** The shell around every reconciler: finalizers, conditions, events, errors and when to look again. */
export { findCondition, writtenConditions } from './conditions.ts';
export { controllerKey, enqueueOnChange, ownKey } from './enqueue.ts';
export type {
  CleanUpResult,
  ConditionState,
  DesiredStatus,
  Pass,
  ReconciledObject,
  Reconciler,
} from './reconciler.ts';
export { retryDelayMs } from './retry_delay.ts';
export { reconcileObject, type ShellOptions } from './shell.ts';
