import { connect } from 'node:net';
import { Client, credentials, Metadata } from '@grpc/grpc-js';
import { type ErrorCode, explainUnknownCall, fromCallError, unaryCall } from '@hearth/common';
import { ControlService } from '@hearth/common/generated/hearth/v1/control.ts';
import type { CallName, ControlCalls, RequestOf, ResponseOf } from './control_calls.ts';

const knockMs = 2000;

/** The control API on the Unix socket of one agent. A connection a call: calls are rare, and agents restart. */
export class SocketCalls implements ControlCalls {
  readonly #socket: string;
  readonly #deadlineMs: number;

  /** `deadlineMs`: for one call. */
  constructor(socket: string, deadlineMs: number) {
    this.#socket = socket;
    this.#deadlineMs = deadlineMs;
  }

  async call<Name extends CallName>(
    name: Name,
    request: RequestOf<Name>,
    { signal }: { signal: AbortSignal },
  ): Promise<ResponseOf<Name>> {
    signal.throwIfAborted();
    const client = new Client(`unix:${this.#socket}`, credentials.createInsecure(), { 'grpc.enable_retries': 0 });
    try {
      return await this.#send(client, name, request, signal);
    } catch (error) {
      const status = () => this.#send(client, 'getStatus', {}, signal);
      throw await explainUnknownCall(error, status, 'the CSI driver');
    } finally {
      client.close();
    }
  }

  async #send<Name extends CallName>(
    client: Client,
    name: Name,
    request: RequestOf<Name>,
    signal: AbortSignal,
  ): Promise<ResponseOf<Name>> {
    return await unaryCall(client, ControlService[name], request, {
      metadata: new Metadata(),
      deadlineMs: this.#deadlineMs,
      signal,
      who: 'the agent',
      failure: (error) => (signal.aborted ? signal.reason : fromCallError(error, explain)),
    });
  }
}

/** Why no process answers at a Unix socket, as errno; undefined when one does. gRPC says only "unavailable". */
export async function knock(path: string): Promise<string | undefined> {
  return await new Promise((resolve) => {
    const socket = connect({ path });
    const end = (reason: string | undefined) => {
      socket.destroy();
      resolve(reason);
    };
    socket.setTimeout(knockMs, () => end('ETIMEDOUT'));
    socket.once('connect', () => end(undefined));
    socket.once('error', (error: NodeJS.ErrnoException) => end(error.code ?? error.message));
  });
}

function explain(code: ErrorCode, details: string): string {
  switch (code) {
    case 'DeadlineExceeded':
      return 'the agent did not answer in time; look at its log';
    case 'Unavailable':
      return `the agent went away during the call (${details})`;
    case 'Unsupported':
      return `the agent does not know this call (${details})`;
    default:
      return details;
  }
}
