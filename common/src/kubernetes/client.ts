import type { KubernetesObject, ResourceType } from './object.ts';

export interface Selection {
  /** Absent: all namespaces, or a cluster-scoped object. */
  namespace?: string | undefined;
  labelSelector?: string | undefined;
  fieldSelector?: string | undefined;
}

export interface ListOptions extends Selection {
  /** Maximum number of objects in a page. Absent: everything in one response. */
  limit?: number | undefined;
  /** Continue token of the previous page. */
  continue?: string | undefined;
  resourceVersion?: string | undefined;
}

export interface ObjectList<T> {
  items: T[];
  resourceVersion: string;
  /** Continue token; absent on the last page. */
  continue?: string;
}

export interface WatchOptions extends Selection {
  /** The watch reports changes after this version. */
  resourceVersion: string;
  /** The server ends the watch after this time. */
  timeoutSeconds: number;
  /** The watch fails when nothing, not even a bookmark, arrives for this time. Default 180,000. */
  idleMs?: number | undefined;
}

export type WatchEvent<T> =
  | { type: 'ADDED' | 'MODIFIED' | 'DELETED'; object: T }
  | { type: 'BOOKMARK'; resourceVersion: string };

/** An object for server-side apply: the fields that the manager wants to own. */
export type Applied<T> = KubernetesObject & Partial<Omit<T, keyof KubernetesObject>>;

export interface ApplyOptions {
  /** Default hearth-operator. */
  fieldManager?: string | undefined;
  /** Take over fields of other managers. Default true. */
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
  /** Default Background. */
  propagation?: 'Background' | 'Foreground' | 'Orphan' | undefined;
  preconditions?: { uid?: string; resourceVersion?: string } | undefined;
  gracePeriodSeconds?: number | undefined;
  signal?: AbortSignal | undefined;
}

/**
 * The Kubernetes API for controllers. Every call has a deadline; `signal` ends a call earlier (`Cancelled`). Errors are
 * HearthErrors with the API server's message: NotFound, AlreadyExists, Conflict (stale resourceVersion, failed
 * precondition, field owned by another manager), InvalidArgument (refused by schema or admission), PermissionDenied,
 * Unauthenticated, DeadlineExceeded, Unavailable (unreachable, overloaded, failing, or an expired resourceVersion, see
 * `isExpired`), ProtocolError. Objects are plain JSON with apiVersion and kind; the client neither keeps nor changes
 * its arguments.
 */
export interface KubernetesClient {
  /** undefined when no object has that name. A kind that the server does not serve is NotFound. */
  get<T extends KubernetesObject>(
    type: ResourceType<T>,
    name: string,
    namespace?: string,
    signal?: AbortSignal,
  ): Promise<T | undefined>;
  /** Lists one page. */
  list<T extends KubernetesObject>(
    type: ResourceType<T>,
    options?: ListOptions,
    signal?: AbortSignal,
  ): Promise<ObjectList<T>>;
  /** A namespaced object is created in its metadata.namespace. */
  create<T extends KubernetesObject>(type: ResourceType<T>, object: T, signal?: AbortSignal): Promise<T>;
  /** With a resourceVersion in the object: Conflict unless the version is current. */
  replace<T extends KubernetesObject>(
    type: ResourceType<T>,
    object: T,
    subresource?: string,
    signal?: AbortSignal,
  ): Promise<T>;
  /** true: deletion has begun (finalizers may still hold the object); false: no object had that name. */
  delete<T extends KubernetesObject>(
    type: ResourceType<T>,
    name: string,
    namespace?: string,
    options?: DeleteOptions,
  ): Promise<boolean>;
  /** Server-side apply: creates the object, or changes the fields given. */
  apply<T extends KubernetesObject>(type: ResourceType<T>, object: Applied<T>, options?: ApplyOptions): Promise<T>;
  /** Merge patch (RFC 7386) or JSON patch (RFC 6902; its `test` operations fail as InvalidArgument). */
  patch<T extends KubernetesObject>(
    type: ResourceType<T>,
    name: string,
    namespace: string | undefined,
    patch: unknown,
    options: PatchOptions,
  ): Promise<T>;
  /**
   * Yields changes in order; returns when the server ends the stream, throws on any other end. Use Reflector instead.
   */
  watch<T extends KubernetesObject>(
    type: ResourceType<T>,
    options: WatchOptions,
    signal: AbortSignal,
  ): AsyncIterable<WatchEvent<T>>;
  /**
   * Wall-clock time of the API server, which stamps objects; accurate to a second. Local time before the first
   * response.
   */
  date(): Date;
}
