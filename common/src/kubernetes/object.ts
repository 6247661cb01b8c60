import type { V1ObjectMeta, V1OwnerReference } from '@kubernetes/client-node';
import { HearthError } from '../error.ts';

/**
 * JSON form of a @kubernetes/client-node model: times are RFC 3339 strings, and names that the generator escaped with
 * an underscore (`_from`) have their API spelling.
 */
export type Plain<T> = 0 extends 1 & T
  ? T
  : T extends Date
    ? string
    : T extends (infer Element)[]
      ? Plain<Element>[]
      : T extends object
        ? { [K in keyof T as K extends `_${infer Name}` ? Name : K]: Plain<T[K]> }
        : T;

export type ObjectMeta = Plain<V1ObjectMeta>;
export type OwnerReference = Plain<V1OwnerReference>;

/** Fields that every API object has. */
export interface KubernetesObject {
  apiVersion?: string | undefined;
  kind?: string | undefined;
  metadata?: ObjectMeta | undefined;
}

declare const shape: unique symbol;

/** API endpoint of a kind. T exists at compile time only. */
export interface ResourceType<T extends KubernetesObject = KubernetesObject> {
  /** '' for the core group. */
  readonly group: string;
  readonly version: string;
  /** As in paths: `daemonsets`. */
  readonly plural: string;
  readonly kind: string;
  readonly namespaced: boolean;
  readonly [shape]?: T;
}

export function resourceType<T extends KubernetesObject>(
  group: string,
  version: string,
  plural: string,
  kind: string,
  scope: 'Namespaced' | 'Cluster',
): ResourceType<T> {
  return { group, version, plural, kind, namespaced: scope === 'Namespaced' };
}

/** `apps/v1`, or `v1` for the core group. */
export function apiVersionOf(type: ResourceType): string {
  return type.group === '' ? type.version : `${type.group}/${type.version}`;
}

/** 'namespace/name', or 'name' for a cluster-scoped object: the key of reflectors and queues. */
export function objectKey(object: KubernetesObject): string {
  const { namespace, name } = object.metadata ?? {};
  if (name === undefined) throw new HearthError('InvalidArgument', `A ${object.kind ?? 'object'} has no metadata.name`);
  return namespace === undefined ? name : `${namespace}/${name}`;
}

export function splitKey(key: string): { namespace?: string; name: string } {
  const slash = key.indexOf('/');
  return slash < 0 ? { name: key } : { namespace: key.slice(0, slash), name: key.slice(slash + 1) };
}

/** Owner reference for the garbage collector: dependents are deleted after `owner`. Needs the owner's uid. */
export function ownerReference<T extends KubernetesObject>(type: ResourceType<T>, owner: T): OwnerReference {
  const { name, uid } = owner.metadata ?? {};
  if (name === undefined || uid === undefined) {
    throw new HearthError('InvalidArgument', `A ${type.kind} without name and uid cannot own anything`);
  }
  return {
    apiVersion: apiVersionOf(type),
    kind: type.kind,
    name,
    uid,
    controller: true,
    blockOwnerDeletion: true,
  };
}
