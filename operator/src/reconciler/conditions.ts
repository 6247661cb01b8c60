import type { HearthError } from '@hearth/common';
import type { Condition } from '@hearth/common/resources';
import type { ConditionState } from './reconciler.ts';

/** The API server refuses longer messages. */
const longestMessage = 4_096;

export function condition(type: string, status: Condition['status'], reason: string, message: string): ConditionState {
  return { type, status, reason, message };
}

export function findCondition(conditions: readonly Condition[] | undefined, type: string): Condition | undefined {
  return conditions?.find((condition) => condition.type === type);
}

/**
 * The conditions as they are written: each with the generation that it was found for, and with the time since when its
 * status is what it is, which only a change of the status renews.
 */
export function writtenConditions(
  before: readonly Condition[] | undefined,
  states: readonly ConditionState[],
  generation: number,
  now: Date,
): Condition[] {
  return states.map(({ type, status, reason, message }) => {
    const known = findCondition(before, type);
    const since = known?.status === status ? known.lastTransitionTime : now.toISOString().replace(/\.\d+Z$/, 'Z');
    return {
      type,
      status,
      observedGeneration: generation,
      lastTransitionTime: since,
      reason,
      message: message.length > longestMessage ? `${message.slice(0, longestMessage - 1)}…` : message,
    };
  });
}

/** The conditions of an object whose pass failed, unless its reconciler has already said why it is not ready. */
export function withFailure(states: readonly ConditionState[], error: HearthError): ConditionState[] {
  const ready = states.find(({ type }) => type === 'Ready');
  if (ready?.status === 'False') return [...states];
  return [condition('Ready', 'False', error.code, error.message), ...states.filter((state) => state !== ready)];
}
