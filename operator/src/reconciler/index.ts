/** The shell around every reconciler: passes, finalizers, conditions, events, errors and when to look again. */

export { condition, findCondition, writtenConditions } from './conditions.ts';
export type { ControllerParts } from './controller_parts.ts';
export { hasFinalizer, removeFinalizer } from './finalizer.ts';
export { reconcileKey } from './pass.ts';
export type * from './reconciler.ts';
export { retryDelayMs } from './retry_delay.ts';
export { reconcileObject } from './shell.ts';
export { WrittenFigures } from './written_figures.ts';
