import type { KubernetesObject, ResourceType } from './object.ts';

export interface Selection {
  /** Absent: all namespaces (or an object of the cluster). */
  namespace?: string | undefined;
  labelSelector?: string | undefined;
  fieldSelector?: string | undefined;
}

export interface ListOptions extends Selection {
  /** Objects a page. Absent: all in one answer. */
  limit?: number | undefined;
  /** The page after the one that gave this token. */
  continue?: string | undefined;
  resourceVersion?: string | undefined;
}

export interface ObjectList<T> {
  items: T[];
  resourceVersion: string;
  /** There is another page. */
  continue?: string;
}

export interface WatchOptions extends Selection {
  /** Changes after this version are reported. */
  resourceVersion: string;
  /** The server ends the watch after this time. */
  timeoutSeconds: number;
  /** Nothing received for this time, bookmarks included: the connection counts as dead. Absent: 180,000. */
  idleMs?: number | undefined;
}

export type WatchEvent<T> =
  | { type: 'ADDED' | 'MODIFIED' | 'DELETED'; object: T }
  | { type: 'BOOKMARK'; resourceVersion: string };

/** An object as server-side apply takes it: the fields that the manager wants to own. */
export type Applied<T> = KubernetesObject & Partial<Omit<T, keyof KubernetesObject>>;

export interface ApplyOptions {
  /** Absent: hearth-operator. */
  fieldManager?: string | undefined;
  /** Take fields that others own. Absent: true, as a controller's desired state is not open to debate. */
  force?: boolean | undefined;
  subresource?: string | undefined;
  signal?: AbortSignal | undefined;
}

export interface PatchOptions {
  kind: 'merge' | 'json';
  subresource?: string | undefined;
  signal?: AbortSignal | undefined;
}

export interface DeleteOptions {
  /** Absent: Background. */
  propagation?: 'Background' | 'Foreground' | 'Orphan' | undefined;
  preconditions?: { uid?: string; resourceVersion?: string } | undefined;
  gracePeriodSeconds?: number | undefined;
  signal?: AbortSignal | undefined;
}

/**
 * The Kubernetes API as controllers use it. Every call has a deadline of its own; `signal` ends it earlier
 * (`Cancelled`). Errors are HearthError with the API server's words:
 * NotFound, AlreadyExists, Conflict (stale resourceVersion, failed precondition, field owned by another manager),
 * InvalidArgument (refused by schema or admission), PermissionDenied, Unauthenticated, DeadlineExceeded, Unavailable
 * (cannot be reached, overloaded, failing; also an expired resourceVersion, see `isExpired`), ProtocolError.
 * Objects given and returned are plain JSON with apiVersion and kind; nothing keeps or changes what was given.
 */
export interface KubernetesClient {
  /** undefined: there is no object of that name. A kind that the server does not know is an error (NotFound). */
  get<T extends KubernetesObject>(
    type: ResourceType<T>,
    name: string,
    namespace?: string,
    signal?: AbortSignal,
  ): Promise<T | undefined>;
  /** One page. */
  list<T extends KubernetesObject>(
    type: ResourceType<T>,
    options?: ListOptions,
    signal?: AbortSignal,
  ): Promise<ObjectList<T>>;
  /** The namespace, if the type has one, is the object's. */
  create<T extends KubernetesObject>(type: ResourceType<T>, object: T, signal?: AbortSignal): Promise<T>;
  /** With a resourceVersion in the object: only if it is still the present one, else Conflict. */
  replace<T extends KubernetesObject>(
    type: ResourceType<T>,
    object: T,
    subresource?: string,
    signal?: AbortSignal,
  ): Promise<T>;
  /** true: deletion has begun (finalizers may hold the object); false: there was nothing of that name. */
  delete<T extends KubernetesObject>(
    type: ResourceType<T>,
    name: string,
    namespace?: string,
    options?: DeleteOptions,
  ): Promise<boolean>;
  /** Server-side apply: creates the object or changes the fields named in it. */
  apply<T extends KubernetesObject>(type: ResourceType<T>, object: Applied<T>, options?: ApplyOptions): Promise<T>;
  /** Merge patch (RFC 7386) or JSON patch (RFC 6902; its `test` operations fail as InvalidArgument). */
  patch<T extends KubernetesObject>(
    type: ResourceType<T>,
    name: string,
    namespace: string | undefined,
    patch: unknown,
    options: PatchOptions,
  ): Promise<T>;
  /** Changes in order until the server ends the stream (returns) or anything goes wrong (throws). For the Reflector. */
  watch<T extends KubernetesObject>(
    type: ResourceType<T>,
    options: WatchOptions,
    signal: AbortSignal,
  ): AsyncIterable<WatchEvent<T>>;
  /** The time of day by the API server's clock, which stamps objects; right within a second. Ours before the first answer. */
  date(): Date;
}
