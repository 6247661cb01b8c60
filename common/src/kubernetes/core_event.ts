import type { CoreEvent } from './kinds.ts';

export type EventType = 'Normal' | 'Warning';

/** An event of an object: its reason, count and times. */
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

/** The API refuses longer messages. */
export const longestMessage = 1_024;

/**
 * An event as `kubectl describe` finds it. `id` distinguishes it from all others of its object; `component`: who reports it;
 * `instance`: the replica.
 */
export function coreEvent(occurrence: Occurrence, id: string, component: string, instance: string): CoreEvent {
  const { regarding, type, reason, message, count, first, last } = occurrence;
  // Its parts begin and end with letters or digits (RFC 1123), also where it is cut off.
  const named = regarding.name?.slice(0, 200).replace(/[-.]+$/, '');
  return {
    metadata: {
      // Events of objects of the cluster are in the namespace where kubectl looks for them.
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

/** The API's Time has whole seconds. */
export function seconds(date: Date): string {
  return date.toISOString().replace(/\.\d+Z$/, 'Z');
}
