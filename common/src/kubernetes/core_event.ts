import type { CoreEvent } from './kinds.ts';

export type EventType = 'Normal' | 'Warning';

/** One event of an object: reason, count and times. */
export interface Occurrence {
  regarding: NonNullable<CoreEvent['involvedObject']>;
  type: EventType;
  /** One CamelCase word. */
  reason: string;
  /** A sentence without secrets. */
  message: string;
  count: number;
  first: Date;
  last: Date;
}

/** Maximum length of a message in the API. */
export const longestMessage = 1_024;

/**
 * An Event as `kubectl describe` finds it. `id` is unique among the events of the object; `component` names the
 * reporter, `instance` the replica.
 */
export function coreEvent(occurrence: Occurrence, id: string, component: string, instance: string): CoreEvent {
  const { regarding, type, reason, message, count, first, last } = occurrence;
  // Each part of the name begins and ends with a letter or digit (RFC 1123), also when truncated.
  const named = regarding.name?.slice(0, 200).replace(/[-.]+$/, '');
  return {
    metadata: {
      // kubectl looks for events of cluster-scoped objects in `default`.
      namespace: regarding.namespace ?? 'default',
      name: `${named}.${id}`,
    },
    involvedObject: regarding,
    type,
    reason,
    message: message.slice(0, longestMessage),
    count,
    firstTimestamp: seconds(first),
    lastTimestamp: seconds(last),
    source: { component },
    reportingComponent: component,
    reportingInstance: instance,
  };
}

/** meta/v1 Time has whole seconds. */
export function seconds(date: Date): string {
  return date.toISOString().replace(/\.\d+Z$/, 'Z');
}
