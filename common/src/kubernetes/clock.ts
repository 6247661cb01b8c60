/** Time and chance, so that tests need not wait. */
export interface Clock {
  /** Milliseconds that only grow, from an arbitrary start. */
  now(): number;
  /** The time of day, for what people read. */
  date(): Date;
  /** Runs once after this time, however long it is; the result cancels it. */
  schedule(ms: number, run: () => void): () => void;
  /** Evenly in [0, 1). */
  random(): number;
}

/** setTimeout() takes longer times for none at all. */
const longestTimerMs = 2 ** 31 - 1;

export const systemClock: Clock = {
  now: () => performance.now(),
  date: () => new Date(),
  random: () => Math.random(),
  schedule(ms, run) {
    let timer: NodeJS.Timeout;
    const wait = (left: number) => {
      const now = Math.min(left, longestTimerMs);
      timer = setTimeout(() => (left > now ? wait(left - now) : run()), now);
    };
    wait(ms);
    return () => clearTimeout(timer);
  },
};

/** Resolves after this time, or at once when the signal aborts; never rejects. */
export function sleep(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  if (signal?.aborted) return Promise.resolve();
  const end = () => {
    cancel();
    signal?.removeEventListener('abort', end);
    resolve();
  };
  const cancel = clock.schedule(ms, end);
  signal?.addEventListener('abort', end, { once: true });
  return promise;
}
