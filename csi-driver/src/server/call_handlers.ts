import { type handleUnaryCall, Metadata, type ServerUnaryCall, type StatusObject, status } from '@grpc/grpc-js';
import { errorCodeKey, HearthError, type Logger } from '@hearth/common';
import { CsiError, statusOf } from '../csi_error.ts';

export interface CallHandlersOptions {
  logger: Logger;
  /** Milliseconds for a call, if its caller gives it more or no limit at all. */
  deadlineMs: number;
}

/** The fields of requests that are logged: names alone. Secrets, contexts and mount options never are. */
interface LoggedFields {
  volumeId?: string;
  targetPath?: string;
  volumePath?: string;
  stagingTargetPath?: string;
  name?: string;
}

/** Makes functions the handlers of gRPC calls: with a deadline, one line of log each, and errors as statuses. */
export class CallHandlers {
  readonly #options: CallHandlersOptions;

  constructor(options: CallHandlersOptions) {
    this.#options = options;
  }

  /**
   * At the deadline, or when the caller goes away, the signal is aborted and the call answered; the work itself ends
   * when it can, and keeps its locks until then. `quiet`: calls that come all the time are logged for debugging only.
   */
  unary<Q, R>(
    name: string,
    answer: (request: Q, signal: AbortSignal) => R | Promise<R>,
    quiet = false,
  ): handleUnaryCall<Q, R> {
    return (call, callback) => {
      const started = performance.now();
      const fields = loggedFields(call.request);
      const { signal, timer } = this.#limit(call);
      const work = (async () => await answer(call.request, signal))();
      const answered = Promise.race([work, aborted(signal)]).finally(() => clearTimeout(timer));
      answered.then(
        (response) => {
          const ms = Math.round(performance.now() - started);
          this.#options.logger.log(quiet ? 'debug' : 'info', 'call answered', { call: name, ...fields, ms });
          callback(null, response);
        },
        (thrown) => {
          const error = HearthError.from(thrown);
          const ms = Math.round(performance.now() - started);
          const level = error.code === 'Internal' && !(error instanceof CsiError) ? 'error' : 'warn';
          const stack = level === 'error' ? { stack: error.stack } : {};
          this.#options.logger.log(level, 'call failed', {
            call: name,
            ...fields,
            ms,
            status: status[statusOf(error)],
            error,
            ...stack,
          });
          callback(failureOf(error));
        },
      );
    };
  }

  /** Of calls that the specification has and this driver does not. */
  unsupported<Q, R>(name: string): handleUnaryCall<Q, R> {
    return this.unary<Q, R>(name, () => {
      throw new CsiError('UNIMPLEMENTED', `${name} is not offered by this driver; its capabilities say what is`);
    });
  }

  #limit(call: ServerUnaryCall<unknown, unknown>): { signal: AbortSignal; timer: NodeJS.Timeout } {
    const controller = new AbortController();
    // Infinite when the caller gives no deadline.
    const left = Number(call.getDeadline()) - Date.now();
    const late = new CsiError('DEADLINE_EXCEEDED', 'the call is not done within its time; make it again');
    const timer = setTimeout(() => controller.abort(late), Math.max(0, Math.min(this.#options.deadlineMs, left)));
    const cancel = () => controller.abort(new HearthError('Cancelled', 'the caller gave the call up'));
    if (call.cancelled) cancel();
    else call.once('cancelled', cancel);
    return { signal: controller.signal, timer };
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
