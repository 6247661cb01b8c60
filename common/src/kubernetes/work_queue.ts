export interface WorkQueueOptions {
  name: string;
  /** First and longest delay of a key's retries, ms. Absent: 5 and 300,000. */
  baseDelayMs?: number;
  maxDelayMs?: number;
  /** Retries of all keys together a second, and how many at once. Absent: 10 and 100. */
  ratePerSecond?: number;
  burst?: number;
}

/** Keys that wait to be reconciled. A key is in it once, and never handed out twice at a time. */
export declare class WorkQueue {
  constructor(options: WorkQueueOptions);
  add(key: string): void;
  /** After this time, or earlier if added otherwise; the earliest of several delays counts. */
  addAfter(key: string, delayMs: number): void;
  /** After the back-off of this key's failures, within the rate of all. */
  addRateLimited(key: string): void;
  /** Forgets the failures of a key. */
  forget(key: string): void;
  retries(key: string): number;
  /** The next key, which must be given to done(); undefined when the queue has been shut down and is empty. */
  next(): Promise<string | undefined>;
  done(key: string): void;
  /** Takes no more keys; what waits with a delay is dropped, what is ready is still handed out. */
  shutDown(): void;
  get length(): number;
}
