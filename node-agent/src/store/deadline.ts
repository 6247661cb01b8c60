import { type Clock, HearthError, sleep } from '@hearth/common';
import { type CallOptions, defaultDeadlineMs } from './store.ts';

/** Maximum delay of setTimeout(). */
const maxTimerMs = 2 ** 31 - 1;

export function cancelled(what: string): HearthError {
  return new HearthError('Cancelled', `${what} was cancelled by its caller, or because the store is closing.`);
}

/** The time limits of a running call. */
export interface Bounds {
  /** Aborts at the deadline or on the caller's cancellation, with the call's HearthError as reason. */
  readonly signal: AbortSignal;
  /** Milliseconds until the deadline, at least 0. */
  remainingMs(): number;
}

/**
 * Runs `start` within the caller's deadline and signal and the store's life. The promise settles by the deadline even
 * if `start` does not; later effects of `start` are ignored.
 */
export async function bounded<T>(
  what: string,
  options: CallOptions | undefined,
  life: AbortSignal,
  clock: Clock,
  start: (bounds: Bounds) => Promise<T>,
): Promise<T> {
  const deadlineMs = options?.deadlineMs ?? defaultDeadlineMs;
  if (!(deadlineMs > 0 && deadlineMs <= maxTimerMs)) {
    throw new HearthError(
      'InvalidArgument',
      `A deadline cannot be ${deadlineMs} ms; give more than 0 and at most ${maxTimerMs}.`,
    );
  }
  const controller = new AbortController();
  const endsAt = clock.now() + deadlineMs;
  const cancel = clock.schedule(deadlineMs, () => {
    controller.abort(
      new HearthError('DeadlineExceeded', `${what} took longer than ${deadlineMs} ms. Is the store overloaded?`),
    );
  });
  // A store that ended by itself gives the reason.
  const abandon = (): void => controller.abort(life.reason instanceof HearthError ? life.reason : cancelled(what));
  const signals = options?.signal === undefined ? [life] : [life, options.signal];
  for (const signal of signals) {
    if (signal.aborted) abandon();
    signal.addEventListener('abort', abandon, { once: true });
  }
  const ended = Promise.withResolvers<never>();
  const end = (): void => ended.reject(controller.signal.reason);
  controller.signal.addEventListener('abort', end, { once: true });
  try {
    controller.signal.throwIfAborted();
    const work = start({
      signal: controller.signal,
      remainingMs: () => Math.max(0, endsAt - clock.now()),
    });
    return await Promise.race([work, ended.promise]);
  } finally {
    cancel();
    controller.signal.removeEventListener('abort', end);
    for (const signal of signals) signal.removeEventListener('abort', abandon);
  }
}

/** Waits `ms` milliseconds; rejects with the signal's reason when the signal aborts first. */
export async function pause(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  await sleep(clock, ms, signal);
  signal.throwIfAborted();
}
