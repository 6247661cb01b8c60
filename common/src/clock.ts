/**
 * Time and chance, so that tests need not wait. All product code takes them from here: the system's clock
 * is the default of whoever is given none.
 */
export interface Clock {
  /** Milliseconds that only grow, from an arbitrary start. */
  now(): number;
  /** The time of day, for what people read and records keep. */
  date(): Date;
  /** Runs once after this time, however long it is; the result cancels it. */
  schedule(ms: number, run: () => void): () => void;
  /** Runs again and again, the first time after `ms`, until the result is called. Keeps no process alive. */
  every(ms: number, run: () => void): () => void;
  /** Aborted after this time, with a `TimeoutError` as `AbortSignal.timeout`. Keeps no process alive. */
  timeout(ms: number): AbortSignal;
  /** Evenly in [0, 1). */
  random(): number;
}

/** setTimeout() takes longer times for none at all. */
const longestTimerMs = 2 ** 31 - 1;

export const systemClock: Clock = {
  now: () => performance.now(),
  date: () => new Date(),
  random: () => Math.random(),
  timeout: (ms) => AbortSignal.timeout(Math.ceil(ms)),
  schedule(ms, run) {
    let timer: NodeJS.Timeout;
    const wait = (left: number) => {
      const now = Math.min(left, longestTimerMs);
      timer = setTimeout(() => (left > now ? wait(left - now) : run()), now);
    };
    wait(ms);
    return () => clearTimeout(timer);
  },
  every(ms, run) {
    const timer = setInterval(run, ms).unref();
    return () => clearInterval(timer);
  },
};

/** Milliseconds since the epoch. */
export function epochMs(clock: Pick<Clock, 'date'>): number {
  return clock.date().getTime();
}

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

/** The signal, aborted after this time at the latest. */
export function within(clock: Clock, ms: number, signal: AbortSignal): AbortSignal {
  return AbortSignal.any([signal, clock.timeout(ms)]);
}
