import { isDeepStrictEqual } from 'node:util';
import type { HearthError } from '@hearth/common';
import { type Applied, type KubernetesClient, objectKey, type ResourceType, splitKey } from '@hearth/common/kubernetes';
import type { Condition } from '@hearth/common/resources';
import type { ConditionState, ReconciledObject } from './reconciler.ts';

/** The limit of the API server. */
const longestMessage = 4_096;

export function condition(type: string, status: Condition['status'], reason: string, message: string): ConditionState {
  return { type, status, reason, message };
}

export function findCondition(conditions: readonly Condition[] | undefined, type: string): Condition | undefined {
  return conditions?.find((condition) => condition.type === type);
}

/** Adds generation and transition time, which changes only with the status. */
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

/** Conditions after a failed pass. Keeps a reported Ready=False. */
export function withFailure(states: readonly ConditionState[], error: HearthError): ConditionState[] {
  const ready = states.find(({ type }) => type === 'Ready');
  if (ready?.status === 'False') return [...states];
  return [condition('Ready', 'False', error.code, error.message), ...states.filter((state) => state !== ready)];
}

type Status = NonNullable<ReconciledObject['status']>;

/** False when nothing changed. The observed resource version makes an outdated object a Conflict. */
export async function writeStatus<T extends ReconciledObject>(
  api: Pick<KubernetesClient, 'apply'>,
  type: ResourceType<T>,
  object: T,
  status: Status,
  signal: AbortSignal,
): Promise<boolean> {
  if (isDeepStrictEqual(comparable(status), comparable(object.status ?? {}))) return false;
  const { uid, resourceVersion } = object.metadata ?? {};
  const metadata = { ...splitKey(objectKey(object)), uid, resourceVersion };
  await api.apply(type, { metadata, status } as unknown as Applied<T>, { subresource: 'status', signal });
  return true;
}

/** JSON with sorted conditions, which the API server merges by type. */
function comparable(status: Status): unknown {
  const plain = JSON.parse(JSON.stringify(status)) as { conditions?: Condition[] };
  plain.conditions?.sort((a, b) => (a.type < b.type ? -1 : 1));
  return plain;
}
