import type { Client } from '@grpc/grpc-js';
import {
  type CallName,
  explainUnknownCall,
  HearthError,
  knock,
  longestSocketPath,
  type RequestOf,
  type ResponseOf,
  type StreamName,
  serverStream,
  unaryCall,
} from '@hearth/common';
import type { ControlService } from '@hearth/common/generated/hearth/v1/control.ts';
import { fromServiceError, fromSocketError } from './call_error.ts';

type Service = typeof ControlService;

const connectMilliseconds = 5000;

export interface ConnectOptions {
  socket: string;
  /** Deadline of unary calls; streams last as long as the agent answers pings. */
  timeoutMilliseconds: number;
  /** Ends every call with `Cancelled`. */
  signal: AbortSignal;
}

/** The control API of one agent over its Unix socket. Throws `HearthError`. Close after use. */
export class AgentClient {
  readonly #client: Client;
  readonly #service: Service;
  readonly #options: ConnectOptions;

  private constructor(client: Client, service: Service, options: ConnectOptions) {
    this.#client = client;
    this.#service = service;
    this.#options = options;
  }

  /** Throws `Unavailable` when no agent listens on the socket, `PermissionDenied` when the user may not open it. */
  static async connect(options: ConnectOptions): Promise<AgentClient> {
    const { socket } = options;
    if (Buffer.byteLength(socket) > longestSocketPath) {
      throw new HearthError(
        'InvalidArgument',
        `the socket path ${socket} is longer than ${longestSocketPath} bytes; use a shorter one`,
      );
    }
    // gRPC reports only "unavailable"; the errno tells whether to start the agent or to switch users.
    const absent = await knock(socket, connectMilliseconds);
    if (absent !== undefined) throw fromSocketError(absent, socket);
    // Loads gRPC lazily, because gRPC takes longer to load than commands that need no agent take to run.
    const [grpc, { ControlService: service }] = await Promise.all([
      import('@grpc/grpc-js'),
      import('@hearth/common/generated/hearth/v1/control.ts'),
    ]);
    const client = new grpc.Client(`unix:${socket}`, grpc.credentials.createInsecure(), {
      // Pings detect a stopped agent; otherwise its streams would never end.
      'grpc.keepalive_time_ms': 15_000,
      'grpc.keepalive_timeout_ms': 10_000,
      'grpc.max_receive_message_length': 64 << 20,
      'grpc.enable_retries': 0,
      // Followers of a job wait for their agent to restart.
      'grpc.initial_reconnect_backoff_ms': 250,
      'grpc.max_reconnect_backoff_ms': 1000,
    });
    return new AgentClient(client, service, options);
  }

  async call<Name extends CallName>(name: Name, request: RequestOf<Name>): Promise<ResponseOf<Name>> {
    const { signal, timeoutMilliseconds } = this.#options;
    signal.throwIfAborted();
    const { Metadata } = await import('@grpc/grpc-js');
    try {
      return await unaryCall(this.#client, this.#service[name], request, {
        metadata: new Metadata(),
        deadlineMs: timeoutMilliseconds,
        signal,
        callee: 'the agent',
        failure: (error) => fromServiceError(error, this.#options),
      });
    } catch (error) {
      throw name === 'getStatus' ? error : await this.#explained(error);
    }
  }

  /** Yields the messages of a stream; leaving the loop cancels the call. */
  async *stream<Name extends StreamName>(name: Name, request: RequestOf<Name>): AsyncGenerator<ResponseOf<Name>> {
    const { signal } = this.#options;
    signal.throwIfAborted();
    try {
      yield* serverStream<RequestOf<Name>, ResponseOf<Name>>(this.#client, this.#service[name], request, { signal });
    } catch (thrown) {
      throw await this.#explained(fromServiceError(thrown, this.#options));
    }
  }

  close(): void {
    this.#client.close();
  }

  #explained(error: unknown): Promise<unknown> {
    return explainUnknownCall(error, () => this.call('getStatus', { recordsOnly: true }), 'this command');
  }
}
