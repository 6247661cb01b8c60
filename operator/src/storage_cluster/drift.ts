import type { KubernetesObject } from '@hearth/common/kubernetes';
import { specHashAnnotation } from '@hearth/common/resources';
import { amountOf } from '../planner/index.ts';

/** Current: applied from the same object, with its fields unchanged. The server adds fields of its own. */
export function isCurrent(desired: KubernetesObject, observed: KubernetesObject | undefined): boolean {
  if (observed === undefined || observed.metadata?.deletionTimestamp !== undefined) return false;
  const hash = desired.metadata?.annotations?.[specHashAnnotation];
  return observed.metadata?.annotations?.[specHashAnnotation] === hash && contains(observed, desired);
}

/** True when `whole` has every field of `part`. Empty fields may be absent. */
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

/** Matches named items by name, since others may add items; other lists must be equal. */
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

/** The server normalizes quantities: 0.5 to 500m, 1024Mi to 1Gi. */
function sameQuantity(a: unknown, b: unknown): boolean {
  if (typeof a !== 'string' || typeof b !== 'string') return false;
  // Millis are the finest unit of any quantity.
  const [left, right] = [amountOf('cpu', a), amountOf('cpu', b)];
  return left !== undefined && left === right;
}

function isEmpty(value: unknown): boolean {
  if (value === undefined || value === null || value === '') return true;
  if (Array.isArray(value)) return value.length === 0;
  return typeof value === 'object' && Object.keys(value).length === 0;
}
