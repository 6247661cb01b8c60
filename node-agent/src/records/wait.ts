import { HearthError } from '@hearth/common';

/**
 * Settles like the promise, or rejects with a HearthError as soon as one of the signals aborts. Leaves no listener
 * behind.
 */
export async function unlessAborted<T>(promise: Promise<T>, ...signals: (AbortSignal | undefined)[]): Promise<T> {
  const ended = Promise.withResolvers<never>();
  const present = signals.filter((signal) => signal !== undefined);
  const listeners = present.map((signal) => {
    const listener = () => ended.reject(abortError(signal));
    if (signal.aborted) listener();
    else signal.addEventListener('abort', listener, { once: true });
    return { signal, listener };
  });
  try {
    return await Promise.race([promise, ended.promise]);
  } finally {
    for (const { signal, listener } of listeners) signal.removeEventListener('abort', listener);
  }
}

/** The reason of an aborted signal as a HearthError: `DeadlineExceeded` for timeouts, else `Cancelled`. */
export function abortError(signal: AbortSignal): HearthError {
  if (signal.reason instanceof HearthError) return signal.reason;
  if (signal.reason instanceof DOMException && signal.reason.name === 'TimeoutError') {
    return new HearthError('DeadlineExceeded', 'the deadline passed; try again with a later deadline');
  }
  return new HearthError('Cancelled', 'the call was cancelled by the caller, or the agent is ending');
}
