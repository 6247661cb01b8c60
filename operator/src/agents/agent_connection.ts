import { type Client, credentials } from '@grpc/grpc-js';
import {
  type CallName,
  type ErrorCode,
  explainUnknownCall,
  fromCallError,
  HearthError,
  type RequestOf,
  type ResponseOf,
  type StreamName,
  serverStream,
} from '@hearth/common';
import { ControlService } from '@hearth/common/generated/hearth/v1/control.ts';
import { ReconnectingClient } from '@hearth/common/grpc';

/** The operator's certificate and the authorities it trusts, PEM. */
export interface ClientIdentity {
  certificate: string;
  key: string;
  authorities: string;
  serverName: string;
}

/** The address of a node's agent, `host:port`. */
export type AgentEndpoint = { node: string; address: string };

const options = {
  // Detects a lost machine while a stream is open.
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
 * The control API of one agent over mutual TLS, connected on first use. A call ends at its deadline; a stream fails
 * `connectMs` after its start without a connection, and 25 s after the last sign of life. Throws HearthError that names
 * node and address.
 */
export class AgentConnection {
  readonly node: string;
  readonly address: string;
  readonly #connectMs: number;
  readonly #client: ReconnectingClient;

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
      callee: `the agent on ${endpoint.node}`,
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

  /** Leaving the loop cancels the call. Without a deadline the stream lasts as long as the agent. */
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

  close(): void {
    this.#client.close();
  }

  #explained(error: HearthError, signal: AbortSignal): Promise<unknown> {
    const status = () => this.call('getStatus', { recordsOnly: true }, this.#connectMs, signal);
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

/** The agent's own error, else an explanation of the failed call. */
function callError(thrown: unknown, endpoint: AgentEndpoint, signal: AbortSignal): HearthError {
  if (thrown instanceof HearthError) return thrown;
  if (signal.aborted)
    return new HearthError('Cancelled', `a call to the agent on ${endpoint.node} was given up`, { cause: thrown });
  return fromCallError(thrown, (code, details) => explain(code, details, endpoint));
}

/** True when another agent may answer the call. */
export function isRetryableElsewhere(error: HearthError): boolean {
  return isAway(error) || error.code === 'TryElsewhere';
}

function explain(code: ErrorCode, details: string, { node, address }: AgentEndpoint): string {
  switch (code) {
    case 'DeadlineExceeded':
      return `the agent on ${node} did not answer at ${address} in time; look at the log of its pod`;
    case 'Unavailable':
      return `the agent on ${node} cannot be reached at ${address} (${details}); look at its pod and its log`;
    case 'Unsupported':
      return `the agent on ${node} does not know this call (${details}); it may be older than the operator: update its image`;
    default:
      return `the agent on ${node} answered: ${details}`;
  }
}

/** True when no agent could be reached, as opposed to a rejected request. */
export function isAway(thrown: unknown): boolean {
  const { code } = HearthError.from(thrown);
  return code === 'Unavailable' || code === 'DeadlineExceeded';
}
