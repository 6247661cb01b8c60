import { type DaemonSet, type KubernetesObject, kinds, type ResourceType } from '@hearth/common/kubernetes';
import { agentsLabelPrefix } from '@hearth/common/names';
import { nodeGroupLabel, specHashAnnotation } from '@hearth/common/resources';
import type { PlannedSecret } from '../certificates/index.ts';
import { amountOf } from '../planner/index.ts';
import { mayBeRead } from './configurations.ts';
import type { DesiredObject } from './objects/index.ts';
import type { Observation } from './observation.ts';

export type Action =
  | { kind: 'secret'; secret: PlannedSecret; resourceVersion: string | undefined }
  | { kind: 'apply'; desired: DesiredObject }
  | { kind: 'delete'; type: ResourceType; name: string; uid: string | undefined }
  /** All members restart empty; agents and the operator restore the content. */
  | { kind: 'rebuildStore'; set: KubernetesObject };

/** Pure. Secrets precede the pods that mount them, and new objects the deletion of old ones. */
export function plan(observation: Observation): Action[] {
  const { certificates, secretVersions, desired, owned, foreign, store, refused } = observation;
  const actions: Action[] = certificates.write.map((secret) => ({
    kind: 'secret',
    secret,
    resourceVersion: secretVersions[secret.role],
  }));
  // Agents go on with the store that they have.
  if (refused?.kind === 'Move') return actions;
  const present = new Map(owned.map(({ type, object }) => [keyOf(type, object), object]));
  const wanted = new Set<string>();
  const lost =
    store?.memberLost && refused === undefined ? owned.find(({ type }) => type.kind === 'StatefulSet') : undefined;
  if (lost !== undefined && !isTerminating(lost.object)) actions.push({ kind: 'rebuildStore', set: lost.object });
  for (const one of desired) {
    const key = keyOf(one.type, one.object);
    wanted.add(key);
    const found = present.get(key);
    if (foreign.includes(key) || isCurrent(one.object, found)) continue;
    // A later pass replaces a terminating object.
    if (found !== undefined && (isTerminating(found) || found === lost?.object)) continue;
    // The previous release selected nodes by the group's labels; a new selector could end agents on unlabelled nodes.
    const isSet = one.type.kind === kinds.DaemonSet.kind;
    if (isSet && found !== undefined && !isPlacedByLabel(found) && observation.unlabelled) continue;
    actions.push({ kind: 'apply', desired: one });
  }
  if (store !== undefined) {
    for (const { type, object } of owned) {
      const { name = '', uid } = object.metadata ?? {};
      if (wanted.has(keyOf(type, object)) || isTerminating(object)) continue;
      if (type.kind === kinds.ConfigMap.kind && mayBeRead(object, observation)) continue;
      if (type.kind === kinds.DaemonSet.kind && isOnNodes(object, observation)) continue;
      actions.push({ kind: 'delete', type, name, uid });
    }
  }
  return actions;
}

/** The identity of an object in the operator's namespace. */
export function keyOf(type: ResourceType, object: KubernetesObject): string {
  return `${type.kind} ${object.metadata?.name}`;
}

const isTerminating = (object: KubernetesObject): boolean => object.metadata?.deletionTimestamp !== undefined;

function isPlacedByLabel(object: KubernetesObject): boolean {
  const { nodeSelector, affinity } = (object as DaemonSet).spec?.template.spec ?? {};
  return JSON.stringify([nodeSelector, affinity]).includes(agentsLabelPrefix);
}

/** True for a removed group while nodes have its label, since pods mount volumes there. */
function isOnNodes({ metadata }: KubernetesObject, { labelledGroups }: Observation): boolean {
  return labelledGroups.has(metadata?.labels?.[nodeGroupLabel] ?? '');
}

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
