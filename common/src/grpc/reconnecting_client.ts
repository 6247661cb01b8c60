import { type ChannelCredentials, type ChannelOptions, Client, connectivityState, Metadata } from '@grpc/grpc-js';
import { type Clock, systemClock } from '../clock.ts';
import { HearthError } from '../error.ts';
import { type UnaryCall, unaryCall } from '../unary_call.ts';
import { connectedState } from './connected_state.ts';
import { HandshakeLimit } from './handshake_limit.ts';

/**
 * Time of the first attempt as a multiple of `connectMs`. An attempt outlives the calls that wait for it, so that a
 * slow, overloaded peer is still reached. Each further attempt has twice the time.
 */
const handshakeFactor = 2;
const firstTimeoutTimes = 2;
const maxTimeoutFactor = 8;

export interface ReconnectingClientOptions {
  /** `host:port`. */
  address: string;
  credentials: ChannelCredentials;
  options: ChannelOptions;
  /** Maximum time that a call waits for a connection, ms. */
  connectMs: number;
  /** Name of the server in error messages, such as "the agent on n1". */
  callee: string;
  /** Clock that times connection attempts. */
  clock?: Clock;
}

/**
 * A gRPC client of one address that bounds each connection attempt. gRPC leaves the bound to TCP, which gives up after
 * two minutes on packet loss; meanwhile every call waits for its deadline, streams wait forever, and an address that
 * has recovered is not retried.
 */
export class ReconnectingClient {
  readonly #options: ReconnectingClientOptions;
  readonly #credentials: ChannelCredentials;
  readonly #clock: Clock;
  #client: Client;
  /** Set while disconnected: start and time limit of the current attempt. */
  #away: { since: number; timeoutMs: number } | undefined;

  constructor(options: ReconnectingClientOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#credentials = new HandshakeLimit(options.credentials, handshakeFactor * options.connectMs, this.#clock);
    this.#client = this.#open();
  }

  /**
   * Returns a connected client, or a client whose calls fail at once because its last attempt was refused. Throws
   * `Unavailable` when no connection exists `connectMs` after the attempt began or after `limitMs` milliseconds, so
   * calls during a hopeless attempt fail at once. Throws the signal's reason when the signal aborts.
   */
  async connected(limitMs: number, signal: AbortSignal): Promise<Client> {
    const { connectMs } = this.#options;
    const away = this.#attempt();
    const client = this.#client;
    const left = away === undefined ? connectMs : away.since + connectMs - this.#clock.now();
    const state = await connectedState(client.getChannel(), Math.max(0, Math.min(left, limitMs)), signal, this.#clock);
    if (state === connectivityState.READY && client === this.#client) this.#away = undefined;
    if (state === connectivityState.READY || state === connectivityState.TRANSIENT_FAILURE) return client;
    const { callee, address } = this.#options;
    if (state === connectivityState.SHUTDOWN) {
      throw new HearthError('Unavailable', `the connection to ${callee} at ${address} was closed meanwhile`);
    }
    const within = `${(Math.min(connectMs, limitMs) / 1000).toFixed(1)} s`;
    throw new HearthError(
      'Unavailable',
      `${callee} has not taken a connection to ${address} within ${within}; look whether its node runs and nothing drops packets to that port`,
    );
  }

  /**
   * Makes one call; the deadline includes the wait for a connection. Throws the errors of `connected` and `unaryCall`.
   */
  async call<Request, Response>(
    definition: Parameters<typeof unaryCall<Request, Response>>[1],
    request: Request,
    { deadlineMs, signal, failure }: Pick<UnaryCall, 'deadlineMs' | 'signal' | 'failure'>,
  ): Promise<Response> {
    const endsAt = this.#clock.now() + deadlineMs;
    const client = await this.connected(deadlineMs, signal);
    return await unaryCall<Request, Response>(client, definition, request, {
      metadata: new Metadata(),
      deadlineMs: Math.max(1, endsAt - this.#clock.now()),
      signal,
      callee: this.#options.callee,
      failure,
    });
  }

  /** Calls in flight complete; calls that wait for a connection fail. */
  close(): void {
    this.#client.close();
  }

  /**
   * Begins a new attempt once the current one has used up its time. TRANSIENT_FAILURE says nothing about the current
   * attempt.
   */
  #attempt(): { since: number; timeoutMs: number } | undefined {
    const now = this.#clock.now();
    const { connectMs } = this.#options;
    if (this.#client.getChannel().getConnectivityState(false) === connectivityState.READY) this.#away = undefined;
    else if (this.#away === undefined) this.#away = { since: now, timeoutMs: firstTimeoutTimes * connectMs };
    else if (now - this.#away.since >= this.#away.timeoutMs) {
      const timeoutMs = Math.min(2 * this.#away.timeoutMs, maxTimeoutFactor * connectMs);
      this.#away = { since: now, timeoutMs };
      const old = this.#client;
      this.#client = this.#open();
      // Deferred, because a caller may just have received the old client.
      setImmediate(() => old.close());
    }
    return this.#away;
  }

  #open(): Client {
    const { address, options } = this.#options;
    // A subchannel shared with the old client would share the old attempt.
    return new Client(address, this.#credentials, { ...options, 'grpc.use_local_subchannel_pool': 1 });
  }
}
