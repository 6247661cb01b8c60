import { Client, credentials, Metadata } from '@grpc/grpc-js';
import {
  type CallName,
  type ErrorCode,
  explainUnknownCall,
  fromCallError,
  type RequestOf,
  type ResponseOf,
  unaryCall,
} from '@hearth/common';
import { ControlService } from '@hearth/common/generated/hearth/v1/control.ts';

/** Throws HearthError with the agent's code and message. */
export interface ControlCalls {
  call<Name extends CallName>(
    name: Name,
    request: RequestOf<Name>,
    options: { signal: AbortSignal },
  ): Promise<ResponseOf<Name>>;
}

/** The control API on an agent's Unix socket. Each call connects, since calls are rare and agents restart. */
export class SocketCalls implements ControlCalls {
  readonly #socket: string;
  readonly #deadlineMs: number;

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
      const status = () => this.#send(client, 'getStatus', { recordsOnly: true }, signal);
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
      callee: 'the agent',
      failure: (error) => (signal.aborted ? signal.reason : fromCallError(error, explain)),
    });
  }
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
