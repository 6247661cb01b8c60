import { type Client, credentials } from '@grpc/grpc-js';
import {
  type CallName,
  explainUnknownCall,
  type HearthError,
  type RequestOf,
  type ResponseOf,
  type StreamName,
  serverStream,
} from '@hearth/common';
import { ControlService } from '@hearth/common/generated/hearth/v1/control.ts';
import { ReconnectingClient } from '@hearth/common/grpc';
import { callError } from './call_error.ts';

/** How the operator proves who it is and whom it believes. PEM. */
export interface ClientIdentity {
  certificate: string;
  key: string;
  authorities: string;
  /** Name that agents' certificates must have. */
  serverName: string;
}

/** Where the agent of a node listens: `host:port`. */
export interface AgentEndpoint {
  node: string;
  address: string;
}

const options = {
  // Finds an agent whose machine has vanished while a stream is open.
  'grpc.keepalive_time_ms': 15_000,
  'grpc.keepalive_timeout_ms': 10_000,
  'grpc.max_receive_message_length': 256 << 20,
  'grpc.enable_retries': 0,
  'grpc.enable_http_proxy': 0,
  'grpc.initial_reconnect_backoff_ms': 250,
  'grpc.min_reconnect_backoff_ms': 250,
  'grpc.max_reconnect_backoff_ms': 5_000,
};

/**
 * The control API of one agent by mutual TLS. Connects when first used. Whatever the agent or its host do, a call ends at
 * its deadline, a stream fails `connectMs` after its beginning when there is no connection, and 25 s after the agent's last sign
 * of life when there is. Errors are HearthError, and name the agent's node and address.
 */
export class AgentConnection {
  readonly node: string;
  readonly address: string;
  readonly #connectMs: number;
  readonly #client: ReconnectingClient;

  /** `connectMs`: how long a call waits for a connection. */
  constructor(endpoint: AgentEndpoint, identity: ClientIdentity, connectMs: number) {
    this.node = endpoint.node;
    this.address = endpoint.address;
    const secure = credentials.createSsl(
      Buffer.from(identity.authorities),
      Buffer.from(identity.key),
      Buffer.from(identity.certificate),
    );
    this.#connectMs = connectMs;
    this.#client = new ReconnectingClient({
      address: endpoint.address,
      credentials: secure,
      options: {
        ...options,
        'grpc.ssl_target_name_override': identity.serverName,
        'grpc.default_authority': identity.serverName,
      },
      connectMs,
      who: `the agent on ${endpoint.node}`,
    });
  }

  async call<Name extends CallName>(
    name: Name,
    request: RequestOf<Name>,
    deadlineMs: number,
    signal: AbortSignal,
  ): Promise<ResponseOf<Name>> {
    const failure = (thrown: unknown) => callError(thrown, this, signal);
    try {
      return await this.#client.call(ControlService[name], request, { deadlineMs, signal, failure });
    } catch (thrown) {
      throw name === 'getStatus' ? failure(thrown) : await this.#explained(failure(thrown), signal);
    }
  }

  /** The answers as they come; leaving the loop cancels the call. Without a deadline it lasts as long as the agent. */
  async *stream<Name extends StreamName>(
    name: Name,
    request: RequestOf<Name>,
    deadlineMs: number | undefined,
    signal: AbortSignal,
  ): AsyncGenerator<ResponseOf<Name>> {
    const client = await this.#connected(deadlineMs ?? this.#connectMs, signal);
    try {
      yield* serverStream<RequestOf<Name>, ResponseOf<Name>>(client, ControlService[name], request, {
        signal,
        deadlineMs,
      });
    } catch (thrown) {
      throw await this.#explained(callError(thrown, this, signal), signal);
    }
  }

  /** Calls under way go on to their end. */
  close(): void {
    this.#client.close();
  }

  #explained(error: HearthError, signal: AbortSignal): Promise<unknown> {
    const status = () => this.call('getStatus', {}, this.#connectMs, signal);
    return explainUnknownCall(error, status, 'the operator');
  }

  async #connected(limitMs: number, signal: AbortSignal): Promise<Client> {
    try {
      return await this.#client.connected(limitMs, signal);
    } catch (thrown) {
      throw callError(thrown, this, signal);
    }
  }
}
