import { once } from 'node:events';
import {
  type handleServerStreamingCall,
  type handleUnaryCall,
  Metadata,
  type ServerWritableStream,
  type StatusObject,
  status,
} from '@grpc/grpc-js';
import { errorCodeKey, errorTable, HearthError, type Logger } from '@hearth/common';
import { unlessAborted } from '../records/index.ts';
import { namesOf } from '../tls/index.ts';

/** The caller proved by its certificate; no names for callers over the Unix socket. */
export interface Caller {
  names: readonly string[];
}

type AnyCall = Pick<ServerWritableStream<unknown, unknown>, 'getAuthContext'>;

/** Wraps functions as gRPC handlers; their signal aborts when the client goes away or the server closes. */
export class Handlers {
  readonly #logger: Logger;
  readonly #ending: AbortSignal;
  readonly #allowed: readonly string[];

  /** `allowed`: a caller over TCP must prove one of these names, because the CA also signs other certificates. */
  constructor(logger: Logger, ending: AbortSignal, allowed: readonly string[]) {
    this.#logger = logger;
    this.#ending = ending;
    this.#allowed = allowed;
  }

  /** Refuses callers over TCP, for calls about this machine's own mounts. */
  local<Q, R>(name: string, answer: (request: Q, signal: AbortSignal) => Promise<R>): handleUnaryCall<Q, R> {
    return this.unary(name, async (request, signal, caller) => {
      if (caller.names.length === 0) return await answer(request, signal);
      throw new HearthError(
        'PermissionDenied',
        `${name} is available on the agent's Unix socket only; call it on the agent's node`,
      );
    });
  }

  unary<Q, R>(
    name: string,
    answer: (request: Q, signal: AbortSignal, caller: Caller) => Promise<R>,
  ): handleUnaryCall<Q, R> {
    return (call, callback) => {
      const signal = this.#signalOf(call);
      const answering = async (): Promise<R> => await answer(call.request, signal, this.#callerOf(call));
      unlessAborted(answering(), signal).then(
        (response) => callback(null, response),
        (thrown) => callback(this.#failure(name, thrown)),
      );
    };
  }

  /** Requests the next message only when the previous one fits the client's window. */
  streaming<Q, R>(
    name: string,
    answer: (request: Q, signal: AbortSignal) => AsyncIterable<R>,
  ): handleServerStreamingCall<Q, R> {
    return (call) => {
      const signal = this.#signalOf(call);
      const pumping = async (): Promise<void> => {
        this.#callerOf(call);
        await this.#pump(call, answer(call.request, signal), signal);
      };
      pumping().then(
        () => call.end(),
        (thrown) => call.emit('error', this.#failure(name, thrown)),
      );
    };
  }

  /** Throws `PermissionDenied` for a certificate made for another purpose. */
  #callerOf(call: AnyCall): Caller {
    const certificate = call.getAuthContext()?.sslPeerCertificate;
    const names = namesOf(certificate);
    if (certificate === undefined || names.some((name) => this.#allowed.includes(name))) return { names };
    throw new HearthError(
      'PermissionDenied',
      `the certificate of the caller is for ${names.join(', ') || 'no DNS name'}; the control API accepts ${this.#allowed.join(' or ')}`,
    );
  }

  async #pump<Q, R>(call: ServerWritableStream<Q, R>, messages: AsyncIterable<R>, signal: AbortSignal): Promise<void> {
    for await (const message of messages) {
      signal.throwIfAborted();
      if (!call.write(message)) await once(call, 'drain', { signal });
    }
    signal.throwIfAborted();
  }

  #signalOf(call: { on(event: 'cancelled', listener: () => void): unknown; cancelled: boolean }): AbortSignal {
    const controller = new AbortController();
    const cancel = () => controller.abort(new HearthError('Cancelled', 'the client cancelled the call'));
    if (call.cancelled) cancel();
    else call.on('cancelled', cancel);
    return AbortSignal.any([controller.signal, this.#ending]);
  }

  #failure(call: string, thrown: unknown) {
    const error =
      thrown instanceof Error && thrown.name === 'AbortError'
        ? new HearthError('Cancelled', 'the call was cancelled')
        : HearthError.from(thrown);
    // Only internal errors deserve an operator's attention; all other errors concern the client.
    if (error.code === 'Internal') this.#logger.error('a control call failed', { call, error, stack: error.stack });
    else this.#logger.debug('a control call failed', { call, error });
    return statusOf(error);
  }
}

/** Converts anything thrown to a gRPC status. The message is the error's sentence; causes stay in the log. */
function statusOf(thrown: unknown): Partial<StatusObject> & { code: number; details: string; metadata: Metadata } {
  const error = HearthError.from(thrown);
  const metadata = new Metadata();
  metadata.set(errorCodeKey, error.code);
  return { code: status[errorTable[error.code].grpc], details: error.message, metadata };
}
