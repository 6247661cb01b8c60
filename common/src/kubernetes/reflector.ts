import { isDeepStrictEqual } from 'node:util';
import { backOffMs } from '../back_off.ts';
import { type Clock, sleep, systemClock } from '../clock.ts';
import { HearthError } from '../error.ts';
import type { Logger } from '../logger.ts';
import { apiFailure, isExpired } from './api_failure.ts';
import type { KubernetesClient } from './client.ts';
import type { KubernetesObject, ResourceType } from './object.ts';
import { objectKey } from './object.ts';
import { ObjectStore } from './object_store.ts';

export interface ReflectorOptions<T extends KubernetesObject, P> {
  api: Pick<KubernetesClient, 'list' | 'watch'>;
  type: ResourceType<T>;
  namespace?: string | undefined;
  labelSelector?: string | undefined;
  fieldSelector?: string | undefined;
  /**
   * Projects an object, without metadata.managedFields, to the part to keep; undefined drops the object. The reflector
   * reports no change outside that part. Default: whole objects.
   */
  project?: ((object: T) => P | undefined) | undefined;
  logger: Logger;
  clock?: Clock | undefined;
  /** Default 500. */
  pageSize?: number | undefined;
  /** A watch lasts between this time and twice this time. Default 300. */
  watchSeconds?: number | undefined;
  /** Without an event or bookmark for this time the connection counts as dead. Default 180,000. */
  idleMs?: number | undefined;
}

/** before undefined: added; after undefined: deleted; both defined: changed. */
export type ChangeListener<P> = (key: string, before: P | undefined, after: P | undefined) => void;

/** As client-go's reflector: doubling from 0.8 s to 30 s, reset after two quiet minutes. */
const backOff = { firstMs: 800, longestMs: 30_000 };
const calmMs = 120_000;
/** A watch that the server ends sooner counts as a failure; otherwise the reflector would retry in a tight loop. */
const minWatchMs = 1_000;

/**
 * A copy of all objects of one kind, kept current by list and watch until the signal aborts. Keys are 'namespace/name'
 * or 'name'. Readers share the values and must not change them.
 *
 * Follows client-go's reflector with one difference: lists request the newest state (no resourceVersion), while
 * client-go starts from any state (0). The server ignores `limit` for the latter, which would hold all objects in
 * memory at once, and a state older than the one before a restart would make a new leader act on the past.
 */
export class Reflector<T extends KubernetesObject, P = T> {
  readonly #options: ReflectorOptions<T, P>;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #store: ObjectStore<P>;
  readonly #listeners = new Set<ChangeListener<P>>();
  readonly #synced = Promise.withResolvers<void>();
  #failures = 0;
  #retriedAt = Number.NEGATIVE_INFINITY;
  #hasSynced = false;
  #started = false;
  /** Start of the next watch; undefined: list first. */
  #resourceVersion: string | undefined;
  /** A list took longer than the server keeps its state: request the next list as one page. */
  #wholeList = false;

  constructor(options: ReflectorOptions<T, P>) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#logger = options.logger.child({ reflector: options.type.plural });
    this.#store = new ObjectStore<P>(
      (key, before, after) => this.#notify(key, before, after),
      // Whole objects differ whenever their versions do.
      options.project === undefined ? () => false : isDeepStrictEqual,
    );
    // Marks the rejection as handled when nobody waits.
    this.#synced.promise.catch(() => undefined);
  }

  start(signal: AbortSignal): void {
    if (this.#started)
      throw new HearthError('Internal', `The reflector of ${this.#options.type.plural} is already running`);
    this.#started = true;
    void this.#run(signal);
  }

  /** Resolves when the first list is complete and reported; rejects with Cancelled when the signal aborts earlier. */
  synced(): Promise<void> {
    return this.#synced.promise;
  }

  get hasSynced(): boolean {
    return this.#hasSynced;
  }

  get(key: string): P | undefined {
    return this.#store.get(key);
  }

  all(): P[] {
    return this.#store.values();
  }

  keys(): string[] {
    return this.#store.keys();
  }

  get size(): number {
    return this.#store.size;
  }

  /**
   * Calls the listener for every change in order, including deletions missed during a disconnect. A listener registered
   * after start must also read all(). Returns a function that unsubscribes.
   */
  onChange(listener: ChangeListener<P>): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  async #run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        this.#resourceVersion ??= await this.#list(signal);
        await this.#watch(this.#resourceVersion, signal);
      } catch (thrown) {
        if (signal.aborted) break;
        await sleep(this.#clock, this.#delayAfter(HearthError.from(thrown)), signal);
      }
    }
    this.#synced.reject(new HearthError('Cancelled', `The request to list ${this.#options.type.plural} was cancelled`));
  }

  /** Never gives up: maps every error to a delay. */
  #delayAfter(error: HearthError): number {
    const now = this.#clock.now();
    if (now - this.#retriedAt > calmMs) this.#failures = 0;
    const pause = backOffMs(this.#clock, this.#failures++, backOff);
    const delay = Math.max(pause, apiFailure(error)?.retryAfterMs ?? 0);
    this.#retriedAt = now + delay;
    if (isExpired(error)) {
      this.#logger.info('listing again: the resource version is too old', { error });
      this.#resourceVersion = undefined;
    } else {
      this.#logger.warn('a watch failed; retrying', { error, seconds: Math.ceil(delay / 1000) });
    }
    return delay;
  }

  /** Replaces the copy; returns the version of the list. */
  async #list(signal: AbortSignal): Promise<string> {
    const { api, type, namespace, labelSelector, fieldSelector, pageSize = 500 } = this.#options;
    const limit = this.#wholeList ? undefined : pageSize;
    const generation = this.#store.begin();
    let token: string | undefined;
    for (;;) {
      try {
        const page = await api.list(type, { namespace, labelSelector, fieldSelector, limit, continue: token }, signal);
        for (const object of page.items) this.#put(object, generation);
        token = page.continue;
        if (token !== undefined) continue;
        this.#wholeList = false;
        // Only a complete list proves deletions.
        this.#store.sweep(generation);
        this.#hasSynced = true;
        this.#synced.resolve();
        return page.resourceVersion;
      } catch (thrown) {
        if (token !== undefined && isExpired(thrown)) this.#wholeList = true;
        throw thrown;
      }
    }
  }

  async #watch(from: string, signal: AbortSignal): Promise<void> {
    const { api, type, namespace, labelSelector, fieldSelector, watchSeconds = 300, idleMs } = this.#options;
    const started = this.#clock.now();
    const timeoutSeconds = Math.ceil(watchSeconds * (1 + this.#clock.random()));
    const options = { namespace, labelSelector, fieldSelector, resourceVersion: from, timeoutSeconds, idleMs };
    let heard = false;
    for await (const event of api.watch(type, options, signal)) {
      const version =
        event.type === 'BOOKMARK' ? event.resourceVersion : (event.object.metadata?.resourceVersion as string);
      if (isBefore(version, this.#resourceVersion ?? '')) {
        // Versions only grow while an etcd lives, so this is another etcd with unknown contents.
        this.#resourceVersion = undefined;
        throw new HearthError('Unavailable', `The store of the API server has gone back to version ${version}`);
      }
      if (event.type === 'DELETED') this.#store.delete(objectKey(event.object));
      else if (event.type !== 'BOOKMARK') this.#put(event.object, undefined);
      this.#resourceVersion = version;
      heard = true;
    }
    if (!heard && this.#clock.now() - started < minWatchMs && !signal.aborted) {
      throw new HearthError('Unavailable', `The API server ended the watch of ${type.plural} at once`);
    }
  }

  #put(object: T, generation: number | undefined): void {
    const key = objectKey(object);
    const { resourceVersion = '', uid = '' } = object.metadata ?? {};
    if (object.metadata?.managedFields !== undefined) delete object.metadata.managedFields;
    const value = this.#project(key, object);
    if (value === undefined) this.#store.delete(key);
    else this.#store.put({ key, uid, resourceVersion, value }, generation);
  }

  #project(key: string, object: T): P | undefined {
    const { project } = this.#options;
    if (project === undefined) return object as unknown as P;
    try {
      return project(object);
    } catch (thrown) {
      this.#logger.error('failed to parse an object; treating it as absent', { key, error: thrown });
      return undefined;
    }
  }

  #notify(key: string, before: P | undefined, after: P | undefined): void {
    for (const listener of this.#listeners) {
      try {
        listener(key, before, after);
      } catch (thrown) {
        this.#logger.error('an internal change listener failed', { key, error: thrown });
      }
    }
  }
}

/** Versions are growing decimal numbers (guaranteed since Kubernetes 1.35; always true with etcd). */
function isBefore(version: string, reached: string): boolean {
  return version.length < reached.length || (version.length === reached.length && version < reached);
}
