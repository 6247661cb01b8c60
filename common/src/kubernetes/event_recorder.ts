import { randomBytes } from 'node:crypto';
import { type Clock, sleep, systemClock } from '../clock.ts';
import { HearthError } from '../error.ts';
import type { Logger } from '../logger.ts';
import type { KubernetesClient } from './client.ts';
import { coreEvent, type EventType, longestMessage, type Occurrence, seconds } from './core_event.ts';
import { kinds } from './kinds.ts';
import { apiVersionOf, type KubernetesObject, type ResourceType } from './object.ts';
import { TokenBucket } from './token_bucket.ts';

export interface EventRecorderOptions {
  api: Pick<KubernetesClient, 'create' | 'patch'>;
  /** Reporter shown by `kubectl describe`, such as hearth-operator. */
  component: string;
  /** Name of the reporting pod. */
  instance: string;
  logger: Logger;
  clock?: Clock | undefined;
}

/** Events of the same object and reason within this time are merged into one event with a count. */
const aggregationMs = 600_000;
/** Limits per object, those of client-go's spam filter: a burst of 25, then one every five minutes. */
const objectLimits = { ratePerSecond: 1 / 300, burst: 25 };
/** Limits over all objects. */
const totalLimits = { ratePerSecond: 5, burst: 50 };
/** Maximum number of distinct events kept; further events are dropped. */
const most = 2_000;
const tries = 3;

interface Aggregate extends Occurrence {
  /** Clock time of the last occurrence. */
  at: number;
  /** The event's name once it exists. */
  name: string | undefined;
  /** True while an occurrence is unreported; `notBefore` is the earliest time to report it. */
  pending: boolean;
  notBefore: number;
  failures: number;
}

/**
 * Records core/v1 Events. Never throws or blocks: occurrences above the rate limits are counted and reported later as
 * one event; failures are logged.
 */
export class EventRecorder {
  readonly #options: EventRecorderOptions;
  readonly #clock: Clock;
  readonly #aggregates = new Map<string, Aggregate>();
  readonly #objects = new Map<string, TokenBucket>();
  readonly #total: TokenBucket;
  #sending: Promise<void> | undefined;
  #cancelTimer: (() => void) | undefined;
  #closed = false;

  constructor(options: EventRecorderOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#total = new TokenBucket(totalLimits, this.#clock);
  }

  /** `reason` is one CamelCase word, `message` a sentence without secrets. The object needs kind, name and uid. */
  event(object: KubernetesObject, type: EventType, reason: string, message: string): void {
    if (this.#closed) return;
    const { namespace, name = '', uid = '' } = object.metadata ?? {};
    const { apiVersion = '', kind = '' } = object;
    const key = JSON.stringify([kind, namespace, name, uid, type, reason]);
    const now = this.#clock.now();
    const known = this.#aggregates.get(key);
    if (known !== undefined && now - known.at <= aggregationMs) {
      known.count += 1;
      known.last = this.#clock.date();
      known.at = now;
      known.message = message;
      this.#mark(known);
      return;
    }
    this.#forgetOld(now);
    if (this.#aggregates.size >= most) {
      this.#options.logger.warn('dropped an event: the queue is full', { kind, name, reason });
      return;
    }
    const date = this.#clock.date();
    const aggregate: Aggregate = {
      regarding: { apiVersion, kind, name, uid, ...(namespace === undefined ? {} : { namespace }) },
      type,
      reason,
      message,
      first: date,
      last: date,
      count: 1,
      at: now,
      name: undefined,
      pending: false,
      notBefore: 0,
      failures: 0,
    };
    this.#aggregates.set(key, aggregate);
    this.#mark(aggregate);
  }

  /** Like `event`, for an object that may lack its kind. */
  eventFor<T extends KubernetesObject>(
    kind: ResourceType<T>,
    object: T,
    type: EventType,
    reason: string,
    message: string,
  ): void {
    this.event({ apiVersion: apiVersionOf(kind), kind: kind.kind, metadata: object.metadata }, type, reason, message);
  }

  /** Reports what the rate limits allow, drops the rest and stops all timers. Idempotent. */
  async close(deadlineMs = 2_000): Promise<void> {
    await this.flush(deadlineMs);
    this.#closed = true;
    this.#cancelTimer?.();
  }

  /** Resolves when every event that the rate limits allow is reported, or after `deadlineMs`. */
  async flush(deadlineMs = 2_000): Promise<void> {
    const late = new AbortController();
    const sent = (async () => {
      while (this.#sending !== undefined) await this.#sending;
      late.abort();
    })();
    await Promise.race([sent, sleep(this.#clock, deadlineMs, late.signal)]);
    late.abort();
  }

  #mark(aggregate: Aggregate): void {
    if (aggregate.pending) return;
    aggregate.pending = true;
    const { kind, namespace, name, uid } = aggregate.regarding;
    const object = JSON.stringify([kind, namespace, name, uid]);
    let bucket = this.#objects.get(object);
    if (bucket === undefined) {
      bucket = new TokenBucket(objectLimits, this.#clock);
      this.#objects.set(object, bucket);
    }
    aggregate.notBefore = this.#clock.now() + Math.max(bucket.reserve(), this.#total.reserve());
    aggregate.failures = 0;
    this.#wake();
  }

  /** Sends due events one after the other and schedules the next run. */
  #wake(): void {
    if (this.#sending !== undefined || this.#closed) return;
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    const now = this.#clock.now();
    let next: Aggregate | undefined;
    for (const aggregate of this.#aggregates.values()) {
      if (aggregate.pending && (next === undefined || aggregate.notBefore < next.notBefore)) next = aggregate;
    }
    if (next === undefined) return;
    if (next.notBefore > now) {
      this.#cancelTimer = this.#clock.schedule(next.notBefore - now, () => this.#wake());
      return;
    }
    const due = next;
    this.#sending = this.#send(due).then(() => {
      this.#sending = undefined;
      this.#wake();
    });
  }

  async #send(aggregate: Aggregate): Promise<void> {
    aggregate.pending = false;
    try {
      if (aggregate.name === undefined || !(await this.#update(aggregate))) await this.#create(aggregate);
    } catch (thrown) {
      const error = HearthError.from(thrown);
      aggregate.failures += 1;
      const retry = error.code === 'Unavailable' || error.code === 'DeadlineExceeded';
      if (retry && aggregate.failures < tries) {
        aggregate.pending = true;
        aggregate.notBefore = this.#clock.now() + 1_000 * 2 ** aggregate.failures;
        return;
      }
      const { regarding, reason } = aggregate;
      // The namespace is being deleted together with the object; nobody will read the event.
      const isGoing = error.code === 'PermissionDenied' && error.message.includes('being terminated');
      this.#options.logger.log(isGoing ? 'debug' : 'warn', 'failed to write an event', {
        kind: regarding.kind,
        name: regarding.name,
        reason,
        error,
      });
    }
  }

  async #create(aggregate: Aggregate): Promise<void> {
    const { api, component, instance } = this.#options;
    const event = coreEvent(aggregate, randomBytes(8).toString('hex'), component, instance);
    await api.create(kinds.CoreEvent, event);
    aggregate.name = event.metadata?.name;
  }

  /** false when the event no longer exists (the API server keeps events for an hour). */
  async #update(aggregate: Aggregate): Promise<boolean> {
    const { name = '', regarding, count, message, last } = aggregate;
    try {
      const patch = { count, message: message.slice(0, longestMessage), lastTimestamp: seconds(last) };
      await this.#options.api.patch(kinds.CoreEvent, name, regarding.namespace ?? 'default', patch, { kind: 'merge' });
      return true;
    } catch (thrown) {
      if (HearthError.from(thrown).code !== 'NotFound') throw thrown;
      aggregate.name = undefined;
      return false;
    }
  }

  #forgetOld(now: number): void {
    for (const [key, { at, pending }] of this.#aggregates) {
      if (!pending && now - at > aggregationMs) this.#aggregates.delete(key);
    }
    for (const [key, bucket] of this.#objects) {
      if (bucket.isFull) this.#objects.delete(key);
    }
  }
}
