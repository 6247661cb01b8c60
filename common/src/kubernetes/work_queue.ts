import { type BackOffLimits, backOffMs } from '../back_off.ts';
import { type Clock, systemClock } from '../clock.ts';
import { TokenBucket } from './token_bucket.ts';

export interface WorkQueueOptions {
  /** First and maximum retry delay of a key, ms. Default 5 and 300,000. */
  firstDelayMs?: number;
  longestDelayMs?: number;
  /** Rate limit over the retries of all keys: per second, and burst. Default 10 and 100. */
  ratePerSecond?: number;
  burst?: number;
  clock?: Clock;
}

/**
 * A queue of keys to reconcile, as client-go's work queue: a key waits at most once, is never processed concurrently,
 * and waits again after done() when added while in work. Must not be used after shutDown().
 */
export class WorkQueue {
  readonly #backOff: BackOffLimits;
  readonly #bucket: TokenBucket;
  readonly #clock: Clock;
  /** Keys ready for a worker, in order. */
  readonly #ready = new Set<string>();
  readonly #processing = new Set<string>();
  /** Keys added while in work: ready again after done(). */
  readonly #again = new Set<string>();
  readonly #delayed = new Map<string, { at: number; cancel: () => void }>();
  readonly #failures = new Map<string, number>();
  readonly #waiting: ((key: string | undefined) => void)[] = [];
  #shutDown = false;

  constructor(options: WorkQueueOptions = {}) {
    const {
      firstDelayMs = 5,
      longestDelayMs = 300_000,
      ratePerSecond = 10,
      burst = 100,
      clock = systemClock,
    } = options;
    this.#backOff = { firstMs: firstDelayMs, longestMs: longestDelayMs };
    this.#clock = clock;
    this.#bucket = new TokenBucket({ ratePerSecond, burst }, clock);
  }

  /** Number of keys that a worker could take now. */
  get length(): number {
    return this.#ready.size;
  }

  add(key: string): void {
    if (this.#shutDown) return;
    if (this.#processing.has(key)) this.#again.add(key);
    else this.#makeReady(key);
  }

  /** Adds the key after this time; the earliest of several additions counts. */
  addAfter(key: string, delayMs: number): void {
    if (this.#shutDown) return;
    if (delayMs <= 0) {
      this.add(key);
      return;
    }
    const at = this.#clock.now() + delayMs;
    const known = this.#delayed.get(key);
    if (known !== undefined && known.at <= at) return;
    known?.cancel();
    const cancel = this.#clock.schedule(delayMs, () => {
      this.#delayed.delete(key);
      this.add(key);
    });
    this.#delayed.set(key, { at, cancel });
  }

  /** Adds the key after its jittered, doubling back-off, within the rate limit over all keys. */
  addRateLimited(key: string): void {
    const failures = this.retries(key);
    this.#failures.set(key, failures + 1);
    this.addAfter(key, Math.max(backOffMs(this.#clock, failures, this.#backOff), this.#bucket.reserve()));
  }

  /** Resets the back-off of a key. */
  forget(key: string): void {
    this.#failures.delete(key);
  }

  /** Number of addRateLimited() calls for a key since the last forget(). */
  retries(key: string): number {
    return this.#failures.get(key) ?? 0;
  }

  /** Returns the next key, which the caller must pass to done(); undefined once the queue is shut down and empty. */
  next(): Promise<string | undefined> {
    const [key] = this.#ready;
    if (key !== undefined) {
      this.#handOut(key);
      return Promise.resolve(key);
    }
    if (this.#shutDown) return Promise.resolve(undefined);
    const { promise, resolve } = Promise.withResolvers<string | undefined>();
    this.#waiting.push(resolve);
    return promise;
  }

  /** Marks the key's work as ended, successfully or not. */
  done(key: string): void {
    this.#processing.delete(key);
    if (this.#again.delete(key)) this.#makeReady(key);
  }

  /** Accepts no further keys; drops delayed keys, still hands out ready keys. */
  shutDown(): void {
    this.#shutDown = true;
    for (const { cancel } of this.#delayed.values()) cancel();
    this.#delayed.clear();
    for (const resolve of this.#waiting.splice(0)) resolve(undefined);
  }

  #makeReady(key: string): void {
    this.#ready.add(key);
    const resolve = this.#waiting.shift();
    if (resolve === undefined) return;
    const [first] = this.#ready;
    if (first === undefined) return;
    this.#handOut(first);
    resolve(first);
  }

  #handOut(key: string): void {
    this.#ready.delete(key);
    this.#processing.add(key);
  }
}
