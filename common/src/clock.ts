/**
 * Time and randomness. All product code takes them from a Clock, which defaults to the system's, so that tests need not
 * wait.
 */
export interface Clock {
  /** Monotonic milliseconds since an arbitrary start. */
  now(): number;
  /** Wall-clock time, for output and records. */
  date(): Date;
  /**
   * Calls `run` once after `ms` milliseconds, which may exceed the limit of setTimeout(). The returned function cancels
   * the timer.
   */
  schedule(ms: number, run: () => void): () => void;
  /** Calls `run` every `ms` milliseconds until the returned function is called. Does not keep the process alive. */
  every(ms: number, run: () => void): () => void;
  /**
   * A signal that aborts after `ms` milliseconds with a `TimeoutError`, like `AbortSignal.timeout`. Does not keep the
   * process alive.
   */
  timeout(ms: number): AbortSignal;
  /** Uniform in [0, 1). */
  random(): number;
}

/** setTimeout() fires at once for longer delays. */
const maxTimerMs = 2 ** 31 - 1;

export const systemClock: Clock = {
  now: () => performance.now(),
  date: () => new Date(),
  random: () => Math.random(),
  timeout: (ms) => AbortSignal.timeout(Math.ceil(ms)),
  schedule(ms, run) {
    let timer: NodeJS.Timeout;
    const wait = (left: number) => {
      const now = Math.min(left, maxTimerMs);
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

export function epochMs(clock: Pick<Clock, 'date'>): number {
  return clock.date().getTime();
}

/** Resolves after `ms` milliseconds or as soon as the signal aborts; never rejects. */
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

/** A signal that aborts with `signal`, or after `ms` milliseconds. */
export function within(clock: Clock, ms: number, signal: AbortSignal): AbortSignal {
  return AbortSignal.any([signal, clock.timeout(ms)]);
}
