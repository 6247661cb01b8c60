import type { KubernetesObject } from '@hearth/common/kubernetes';
import { specHashAnnotation } from '@hearth/common/resources';
import { amountOf } from '../planner/index.ts';

/**
 * True when an object in the API server is as it should be: applied from the same desired object, and no field of it
 * changed since. The server adds fields of its own, so everything desired must be there, not the other way round.
 */
export function isCurrent(desired: KubernetesObject, observed: KubernetesObject | undefined): boolean {
  if (observed === undefined || observed.metadata?.deletionTimestamp !== undefined) return false;
  const hash = desired.metadata?.annotations?.[specHashAnnotation];
  return observed.metadata?.annotations?.[specHashAnnotation] === hash && contains(observed, desired);
}

/** True when every field of `part` stands in `whole` with the same value. Empty fields may be absent. */
export function contains(whole: unknown, part: unknown): boolean {
  if (isEmpty(part)) return whole === undefined || whole === null || typeof whole === typeof part;
  if (Array.isArray(part)) return Array.isArray(whole) && containsItems(whole, part);
  if (typeof part === 'object' && part !== null) {
    if (typeof whole !== 'object' || whole === null) return false;
    const fields = whole as Record<string, unknown>;
    return Object.entries(part).every(([name, value]) => value === undefined || contains(fields[name], value));
  }
  return whole === part || sameQuantity(whole, part);
}

/** Items that have names are found by them, as others may have added theirs; the rest must be equal in order. */
function containsItems(whole: unknown[], part: unknown[]): boolean {
  const names = part.map(nameOf);
  if (names.every((name) => name !== undefined) && new Set(names).size === names.length) {
    return part.every((item, index) =>
      contains(
        whole.find((other) => nameOf(other) === names[index]),
        item,
      ),
    );
  }
  return whole.length === part.length && part.every((item, index) => contains(whole[index], item));
}

function nameOf(item: unknown): unknown {
  if (typeof item !== 'object' || item === null) return undefined;
  const { mountPath, name, uid } = item as Record<string, unknown>;
  return mountPath ?? name ?? uid;
}

/** The server writes quantities in its own way: 0.5 as 500m, 1024Mi as 1Gi. */
function sameQuantity(a: unknown, b: unknown): boolean {
  if (typeof a !== 'string' || typeof b !== 'string') return false;
  // In thousandths, as of cpu: no quantity of a pod is finer.
  const [left, right] = [amountOf('cpu', a), amountOf('cpu', b)];
  return left !== undefined && left === right;
}

function isEmpty(value: unknown): boolean {
  if (value === undefined || value === null || value === '') return true;
  if (Array.isArray(value)) return value.length === 0;
  return typeof value === 'object' && Object.keys(value).length === 0;
}
