import { type Clock, systemClock } from '../clock.ts';
import { TokenBucket } from './token_bucket.ts';

export interface WorkQueueOptions {
  /** First and longest delay of a key's retries, ms. Absent: 5 and 300,000. */
  firstDelayMs?: number;
  longestDelayMs?: number;
  /** Retries of all keys together a second, and how many at once. Absent: 10 and 100. */
  ratePerSecond?: number;
  burst?: number;
  clock?: Clock;
}

/**
 * Keys that wait to be reconciled, as client-go's work queue: a key waits once however often it is added, is never in
 * work twice at a time, and when added while in work waits again after done(). For one term: not to be used again
 * after shutDown().
 */
export class WorkQueue {
  readonly #firstDelayMs: number;
  readonly #longestDelayMs: number;
  readonly #bucket: TokenBucket;
  readonly #clock: Clock;
  /** Ready for a worker, in order. */
  readonly #ready = new Set<string>();
  readonly #processing = new Set<string>();
  /** Added while in work: ready again after done(). */
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
    this.#firstDelayMs = firstDelayMs;
    this.#longestDelayMs = longestDelayMs;
    this.#clock = clock;
    this.#bucket = new TokenBucket({ ratePerSecond, burst }, clock);
  }

  /** Keys that a worker could take now. */
  get length(): number {
    return this.#ready.size;
  }

  add(key: string): void {
    if (this.#shutDown) return;
    if (this.#processing.has(key)) this.#again.add(key);
    else this.#makeReady(key);
  }

  /** After this time, or earlier if added otherwise; the earliest of several delays counts. */
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

  /** After the back-off of this key's failures, which doubles and is drawn from its upper half, within the rate of all. */
  addRateLimited(key: string): void {
    const failures = this.retries(key);
    this.#failures.set(key, failures + 1);
    const ceiling = Math.min(this.#longestDelayMs, this.#firstDelayMs * 2 ** Math.min(failures, 40));
    const own = ceiling * (0.5 + this.#clock.random() / 2);
    this.addAfter(key, Math.max(own, this.#bucket.reserve()));
  }

  /** Forgets the failures of a key. */
  forget(key: string): void {
    this.#failures.delete(key);
  }

  /** How often a key was added by addRateLimited() since it was forgotten. */
  retries(key: string): number {
    return this.#failures.get(key) ?? 0;
  }

  /** The next key, which must be given to done(); undefined when the queue has been shut down and is empty. */
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

  /** Work on the key has ended, well or not. */
  done(key: string): void {
    this.#processing.delete(key);
    if (this.#again.delete(key)) this.#makeReady(key);
  }

  /** Takes no more keys; what waits with a delay is dropped, what is ready is still handed out. */
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
