import { readFileSync } from 'node:fs';
import {
  Channel,
  type ChannelCredentials,
  type ChannelOptions,
  connectivityState,
  credentials,
  experimental,
  Metadata,
} from '@grpc/grpc-js';
import { backOffMs, type Clock, HearthError, type Logger } from '@hearth/common';
import { connectedState } from '@hearth/common/grpc';
import { TlsFiles } from '../tls/index.ts';
import { type Bounds, pause } from './deadline.ts';
import type { EtcdAddress, EtcdTls } from './etcd_address.ts';
import { etcdError, isRefused, isServiceError, isTokenRefused, isTransient } from './etcd_error.ts';
import { unary } from './etcd_unary.ts';
import {
  AuthClient,
  type AuthenticateResponse,
  KVClient,
  LeaseClient,
  MaintenanceClient,
  type RangeResponse,
  WatchClient,
} from './generated/etcd/rpc.ts';

/** Pauses between attempts. */
const backOff = { firstMs: 50, longestMs: 1_000 };

/** One member of the cluster; its clients share one connection. */
export interface EtcdMember {
  readonly endpoint: string;
  readonly kv: KVClient;
  readonly lease: LeaseClient;
  readonly watch: WatchClient;
  readonly auth: AuthClient;
  readonly maintenance: MaintenanceClient;
  readonly channel: Channel;
}

/** One call to one member. Must settle soon after the signal aborts, with the signal's reason. */
export type Attempt<T> = (member: EtcdMember, metadata: Metadata, signal: AbortSignal) => Promise<T>;

export interface CallRules {
  /** True for idempotent calls. Other calls are repeated only when the member did nothing. */
  readonly repeatable: boolean;
}

// Pings every 10 s while calls run (etcd refuses more than one in 5 s) detect a member whose machine has vanished.
const channelOptions: ChannelOptions = {
  'grpc.keepalive_time_ms': 10_000,
  'grpc.keepalive_timeout_ms': 5_000,
  'grpc.keepalive_permit_without_calls': 0,
  'grpc.initial_reconnect_backoff_ms': 100,
  'grpc.min_reconnect_backoff_ms': 100,
  'grpc.max_reconnect_backoff_ms': 2_000,
  'grpc.dns_min_time_between_resolutions_ms': 2_000,
  'grpc.max_receive_message_length': -1,
  'grpc.max_send_message_length': -1,
  'grpc.enable_http_proxy': 0,
  // A private subchannel pool makes a new channel a new connection.
  'grpc.use_local_subchannel_pool': 1,
};

/** Time for a member to connect, or to answer a question that another member could answer, ms. */
const connectMs = 2_000;
const repeatableAttemptMs = 3_000;
/**
 * Time after which an unconnected member gets a new channel, ms. gRPC leaves the bound to TCP, which takes two minutes;
 * for that long, connection tracking would keep a Service's address on a pod that is gone. Each new channel has twice
 * the time, for overloaded machines.
 */
const firstTimeoutMs = 4_000;
const maxTimeoutMs = 16_000;

/** Calls to an etcd cluster: stays with one member while it works, else tries the next with back-off. */
export class EtcdConnection {
  readonly description: string;
  readonly clock: Clock;
  readonly #members: EtcdMember[];
  readonly #credentials: ChannelCredentials;
  readonly #options: ChannelOptions;
  /** Unconnected members by endpoint: start by the clock and time limit of their channel. */
  readonly #away = new Map<string, { since: number; timeoutMs: number }>();
  readonly #address: EtcdAddress;
  readonly #files: TlsFiles | undefined;
  #current = 0;
  #token: string | undefined;

  /** Reads the address's files periodically; connects on first use. */
  constructor(address: EtcdAddress, logger: Logger, clock: Clock) {
    this.clock = clock;
    this.#address = address;
    this.description = `etcd at ${address.endpoints.join(', ')}`;
    this.#files = address.tls === undefined ? undefined : openFiles(address.tls, logger, clock);
    this.#credentials = this.#files === undefined ? credentials.createInsecure() : credentialsOf(this.#files);
    if (address.passwordFile !== undefined) readNamedFile('passwordFile', address.passwordFile);
    const { serverName } = address.tls ?? {};
    this.#options = {
      ...channelOptions,
      ...(serverName === undefined ? {} : { 'grpc.ssl_target_name_override': serverName }),
    };
    this.#members = address.endpoints.map((endpoint) => this.#member(endpoint));
  }

  close(): void {
    for (const { channel } of this.#members) channel.close();
    this.#files?.close();
  }

  /** Tries the members in turn until the call succeeds, fails permanently, or runs out of time. */
  async call<T>(what: string, bounds: Bounds, { repeatable }: CallRules, attempt: Attempt<T>): Promise<T> {
    const named = `${what} of ${this.description}`;
    let tokensRefused = 0;
    for (let failures = 0; ; failures++) {
      const member = await this.#ready(named, bounds);
      let sent = false;
      let token: string | undefined;
      try {
        const metadata = await this.#metadata(member, bounds.signal);
        const limit = repeatable ? Math.min(repeatableAttemptMs, bounds.remainingMs()) : undefined;
        token = metadata.get('token')[0]?.toString();
        sent = true;
        return await withinAttempt(this.clock, bounds.signal, limit, (signal) => attempt(member, metadata, signal));
      } catch (thrown) {
        bounds.signal.throwIfAborted();
        if (token !== undefined && isTokenRefused(thrown) && tokensRefused++ < 2) {
          // Another call may have obtained a new token already.
          if (this.#token === token) this.#token = undefined;
          continue;
        }
        const lost = thrown instanceof AttemptTimeout || isTransient(thrown);
        if (lost) this.#leave(member);
        if (!(lost && (repeatable || !sent)) && !isRefused(thrown)) throw describe(named, thrown, lost);
        await pause(this.clock, backOffMs(this.clock, failures, backOff), bounds.signal);
      }
    }
  }

  /** Makes a call to every member, one after the other. Throws with the first that cannot be reached or fails. */
  async each<T>(what: string, bounds: Bounds, attempt: Attempt<T>): Promise<T[]> {
    const named = `${what} of ${this.description}`;
    const results: T[] = [];
    for (const member of [...this.#members]) {
      const limitMs = Math.min(connectMs, bounds.remainingMs());
      const state = await connectedState(member.channel, limitMs, bounds.signal, this.clock);
      if (state !== connectivityState.READY) {
        throw new HearthError('Unavailable', `${named}: the member ${member.endpoint} cannot be reached`);
      }
      results.push(await attempt(member, await this.#metadata(member, bounds.signal), bounds.signal));
    }
    return results;
  }

  /** A connected member, preferably the last that worked. At the deadline throws the last member's error. */
  async #ready(named: string, bounds: Bounds): Promise<EtcdMember> {
    let said = 'no answer';
    for (let failures = 0; ; failures++) {
      const member = this.#members[this.#current];
      if (member === undefined) throw new HearthError('Internal', `${named}: there is no member. Please report this.`);
      const limitMs = Math.min(connectMs, bounds.remainingMs());
      const state = await connectedState(member.channel, limitMs, bounds.signal, this.clock);
      if (state === connectivityState.READY) {
        this.#away.delete(member.endpoint);
        return member;
      }
      if (state === connectivityState.TRANSIENT_FAILURE) {
        said = await connectionError(member, bounds.signal);
        // The certificates may have been renewed a moment ago.
        await this.#files?.reread();
      }
      this.#replaceIfStuck(member);
      this.#leave(member);
      // Ends a little before the deadline, so that the caller gets the cause instead of a bare time-out.
      const wait = backOffMs(this.clock, Math.floor(failures / this.#members.length), backOff);
      if (bounds.remainingMs() < wait + 20) {
        throw new HearthError(
          'Unavailable',
          `${named}: no member can be reached, and nothing was sent; ${member.endpoint} reported: ${said}. Is etcd running, and does --store name it?`,
        );
      }
      await pause(this.clock, wait, bounds.signal);
    }
  }

  #member(endpoint: string): EtcdMember {
    const channel = new Channel(endpoint, this.#credentials, this.#options);
    const shared = { channelOverride: channel };
    return {
      endpoint,
      channel,
      kv: new KVClient(endpoint, this.#credentials, shared),
      lease: new LeaseClient(endpoint, this.#credentials, shared),
      watch: new WatchClient(endpoint, this.#credentials, shared),
      auth: new AuthClient(endpoint, this.#credentials, shared),
      maintenance: new MaintenanceClient(endpoint, this.#credentials, shared),
    };
  }

  /** gRPC keeps TRANSIENT_FAILURE until an attempt succeeds, so it says nothing about the current attempt. */
  #replaceIfStuck(member: EtcdMember): void {
    const index = this.#members.indexOf(member);
    // Another call has replaced the member already.
    if (index === -1) return;
    const now = this.clock.now();
    const { since, timeoutMs } = this.#away.get(member.endpoint) ?? { since: now, timeoutMs: firstTimeoutMs };
    if (now - since < timeoutMs) {
      this.#away.set(member.endpoint, { since, timeoutMs });
      return;
    }
    this.#away.set(member.endpoint, { since: now, timeoutMs: Math.min(2 * timeoutMs, maxTimeoutMs) });
    this.#members[index] = this.#member(member.endpoint);
    member.channel.close();
  }

  /** The next call begins with another member. */
  #leave(member: EtcdMember): void {
    if (this.#members[this.#current] === member) this.#current = (this.#current + 1) % this.#members.length;
  }

  async #metadata(member: EtcdMember, signal: AbortSignal): Promise<Metadata> {
    const metadata = new Metadata();
    // A member cut off from the others then refuses at once instead of blocking.
    metadata.set('hasleader', 'true');
    const { user, passwordFile } = this.#address;
    if (user === undefined || passwordFile === undefined) return metadata;
    let token = this.#token;
    if (token === undefined) {
      const password = readNamedFile('passwordFile', passwordFile)
        .toString('utf8')
        .replace(/\r?\n$/, '');
      const request = { name: user, password };
      const response = await unary<AuthenticateResponse>(signal, (answer) =>
        member.auth.authenticate(request, metadata, answer),
      );
      token = response.token;
      this.#token = token;
    }
    metadata.set('token', token);
    return metadata;
  }
}

class AttemptTimeout extends Error {}

async function withinAttempt<T>(
  clock: Clock,
  outer: AbortSignal,
  limitMs: number | undefined,
  body: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  if (limitMs === undefined) return body(outer);
  const controller = new AbortController();
  const abandon = (): void => controller.abort(new AttemptTimeout(`no answer in ${limitMs} ms`));
  const cancel = clock.schedule(limitMs, abandon);
  const stop = (): void => controller.abort(outer.reason);
  outer.addEventListener('abort', stop, { once: true });
  try {
    return await body(controller.signal);
  } finally {
    cancel();
    outer.removeEventListener('abort', stop);
  }
}

function describe(named: string, thrown: unknown, lost: boolean): unknown {
  if (!lost) return isServiceError(thrown) ? thrown : etcdError(named, thrown);
  const { code, message } = etcdError(named, thrown);
  return new HearthError(code, `${message} It may or may not have been written.`, { cause: thrown });
}

/** The channel's reason for failing, as any call gets it in that state. */
async function connectionError(member: EtcdMember, signal: AbortSignal): Promise<string> {
  const request = { key: Buffer.of(0), rangeEnd: Buffer.alloc(0), limit: 1n, revision: 0n };
  try {
    await unary<RangeResponse>(signal, (answer) => member.kv.range(request, answer));
    return 'it came back just now';
  } catch (thrown) {
    return isServiceError(thrown) ? thrown.details : HearthError.from(thrown).message;
  }
}

function readNamedFile(parameter: string, path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (thrown) {
    const { code } = thrown as NodeJS.ErrnoException;
    throw new HearthError(
      code === 'ENOENT' ? 'NotFound' : code === 'EACCES' ? 'PermissionDenied' : 'IoError',
      `The file ${path}, given as '${parameter}' of --store, cannot be read (${code}). Name a file that this user can read.`,
    );
  }
}

function openFiles({ ca, cert, key }: EtcdTls, logger: Logger, clock: Clock): TlsFiles {
  const named = (setting: string, path: string) => ({ setting: `${setting} of the store`, path });
  return TlsFiles.open(
    {
      authorities: ca === undefined ? undefined : named('ca', ca),
      identity:
        cert === undefined || key === undefined
          ? undefined
          : { certificate: named('cert', cert), key: named('key', key) },
    },
    logger,
    { clock },
  );
}

function credentialsOf(files: TlsFiles): ChannelCredentials {
  const identity = files.contents.identity === undefined ? null : files;
  return experimental.createCertificateProviderChannelCredentials(files, identity);
}
