import { type ChannelCredentials, type ChannelOptions, Client, connectivityState, Metadata } from '@grpc/grpc-js';
import { type Clock, systemClock } from '../clock.ts';
import { HearthError } from '../error.ts';
import { type UnaryCall, unaryCall } from '../unary_call.ts';
import { connectedState } from './connected_state.ts';
import { HandshakeLimit } from './handshake_limit.ts';

/**
 * In times of `connectMs`. An attempt has longer than a call waits for it: a machine that is too busy to be quicker gets
 * there all the same. Each further one has twice the time.
 */
const handshakeTimes = 2;
const firstTimeoutTimes = 2;
const longestTimeoutTimes = 8;

export interface ReconnectingClientOptions {
  /** `host:port`. */
  address: string;
  credentials: ChannelCredentials;
  options: ChannelOptions;
  /** How long calls wait for a connection, milliseconds. */
  connectMs: number;
  /** The server, for sentences: "the agent on n1". */
  who: string;
  /** By which attempts are timed. */
  clock?: Clock;
}

/**
 * A gRPC client of one address whose attempts to connect have an end. gRPC leaves an attempt to TCP, which takes two
 * minutes where packets get lost, during which every call waits for its deadline, and a stream for ever; and where the
 * address has come back meanwhile, it is not asked until then.
 */
export class ReconnectingClient {
  readonly #options: ReconnectingClientOptions;
  readonly #credentials: ChannelCredentials;
  readonly #clock: Clock;
  #client: Client;
  /** While there is no connection: since when, and how long this attempt has. */
  #away: { since: number; timeoutMs: number } | undefined;

  constructor(options: ReconnectingClientOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#credentials = new HandshakeLimit(options.credentials, handshakeTimes * options.connectMs, this.#clock);
    this.#client = this.#open();
  }

  /**
   * A client to put calls to: connected, or one whose calls fail at once since its last attempt was refused. Throws
   * `Unavailable` when there is no connection within `connectMs` of the beginning of the attempt or after `limitMs`
   * milliseconds; so calls during an attempt that leads nowhere fail at once. Throws the reason of the signal.
   */
  async connected(limitMs: number, signal: AbortSignal): Promise<Client> {
    const { connectMs } = this.#options;
    const away = this.#attempt();
    const client = this.#client;
    const left = away === undefined ? connectMs : away.since + connectMs - this.#clock.now();
    const state = await connectedState(client.getChannel(), Math.max(0, Math.min(left, limitMs)), signal, this.#clock);
    if (state === connectivityState.READY && client === this.#client) this.#away = undefined;
    if (state === connectivityState.READY || state === connectivityState.TRANSIENT_FAILURE) return client;
    const { who, address } = this.#options;
    if (state === connectivityState.SHUTDOWN) {
      throw new HearthError('Unavailable', `the connection to ${who} at ${address} was closed meanwhile`);
    }
    const within = `${(Math.min(connectMs, limitMs) / 1000).toFixed(1)} s`;
    throw new HearthError(
      'Unavailable',
      `${who} has not taken a connection to ${address} within ${within}; look whether its node runs and nothing drops packets to that port`,
    );
  }

  /** One call, the wait for a connection included in its deadline. Throws what `connected` and `unaryCall` throw. */
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
      who: this.#options.who,
      failure,
    });
  }

  /** Calls under way go on to their end, those that wait for a connection fail. */
  close(): void {
    this.#client.close();
  }

  /** Begins a new attempt when the one under way has had its time. A state of failure says nothing of that one. */
  #attempt(): { since: number; timeoutMs: number } | undefined {
    const now = this.#clock.now();
    const { connectMs } = this.#options;
    if (this.#client.getChannel().getConnectivityState(false) === connectivityState.READY) this.#away = undefined;
    else if (this.#away === undefined) this.#away = { since: now, timeoutMs: firstTimeoutTimes * connectMs };
    else if (now - this.#away.since >= this.#away.timeoutMs) {
      const timeoutMs = Math.min(2 * this.#away.timeoutMs, longestTimeoutTimes * connectMs);
      this.#away = { since: now, timeoutMs };
      const old = this.#client;
      this.#client = this.#open();
      // Not under the hands of one who has just got it.
      setImmediate(() => old.close());
    }
    return this.#away;
  }

  #open(): Client {
    const { address, options } = this.#options;
    // Sharing a subchannel with the client before it would share its attempt.
    return new Client(address, this.#credentials, { ...options, 'grpc.use_local_subchannel_pool': 1 });
  }
}
