import { type handleUnaryCall, Metadata, type ServerUnaryCall, type StatusObject, status } from '@grpc/grpc-js';
import { type Clock, epochMs, errorCodeKey, HearthError, type Logger, systemClock } from '@hearth/common';
import { CsiError, statusOf } from '../csi_error.ts';

export interface CallHandlersOptions {
  logger: Logger;
  /** The limit of a call whose caller allows more, ms. */
  deadlineMs: number;
  clock?: Clock;
}

/** Logged fields of requests. Secrets, contexts and mount options are never logged. */
interface LoggedFields {
  volumeId?: string;
  targetPath?: string;
  volumePath?: string;
  stagingTargetPath?: string;
  name?: string;
}

/** Wraps functions as gRPC handlers with a deadline, one log line a call, and errors as statuses. */
export class CallHandlers {
  readonly #options: Required<CallHandlersOptions>;

  constructor(options: CallHandlersOptions) {
    this.#options = { clock: systemClock, ...options };
  }

  /** Aborts the signal at the deadline; the work keeps its locks until it ends. `quiet` logs at debug. */
  unary<Q, R>(
    name: string,
    answer: (request: Q, signal: AbortSignal) => R | Promise<R>,
    quiet = false,
  ): handleUnaryCall<Q, R> {
    return (call, callback) => {
      const { clock, logger } = this.#options;
      const started = clock.now();
      const fields = loggedFields(call.request);
      const { signal, cancel } = this.#limit(call);
      const work = (async () => await answer(call.request, signal))();
      const answered = Promise.race([work, aborted(signal)]).finally(cancel);
      answered.then(
        (response) => {
          const ms = Math.round(clock.now() - started);
          logger.log(quiet ? 'debug' : 'info', 'call answered', { call: name, ...fields, ms });
          callback(null, response);
        },
        (thrown) => {
          const error = HearthError.from(thrown);
          const ms = Math.round(clock.now() - started);
          const level = error.code === 'Internal' && !(error instanceof CsiError) ? 'error' : 'warn';
          const stack = level === 'error' ? { stack: error.stack } : {};
          const outcome = { ms, status: status[statusOf(error)], error, ...stack };
          logger.log(level, 'call failed', { call: name, ...fields, ...outcome });
          callback(failureOf(error));
        },
      );
    };
  }

  /** For calls of the specification that this driver does not implement. */
  unsupported<Q, R>(name: string): handleUnaryCall<Q, R> {
    return this.unary<Q, R>(name, () => {
      throw new CsiError('UNIMPLEMENTED', `${name} is not offered by this driver; its capabilities say what is`);
    });
  }

  #limit(call: ServerUnaryCall<unknown, unknown>): { signal: AbortSignal; cancel: () => void } {
    const controller = new AbortController();
    const { clock, deadlineMs } = this.#options;
    // gRPC uses the system's clock; infinite without a deadline.
    const left = Number(call.getDeadline()) - epochMs(systemClock);
    const late = new CsiError('DEADLINE_EXCEEDED', 'the call is not done within its time; make it again');
    const cancel = clock.schedule(Math.max(0, Math.min(deadlineMs, left)), () => controller.abort(late));
    const giveUp = () => controller.abort(new HearthError('Cancelled', 'the caller gave the call up'));
    if (call.cancelled) giveUp();
    else call.once('cancelled', giveUp);
    return { signal: controller.signal, cancel };
  }
}

function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason);
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
}

function failureOf(error: HearthError): Partial<StatusObject> & { code: number; details: string } {
  const metadata = new Metadata();
  metadata.set(errorCodeKey, error.code);
  return { code: statusOf(error), details: error.message, metadata };
}

function loggedFields(request: unknown): LoggedFields {
  const { volumeId, targetPath, volumePath, stagingTargetPath, name } = request as LoggedFields;
  const fields = { volumeId, targetPath, volumePath, stagingTargetPath, name };
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined && value !== ''));
}
