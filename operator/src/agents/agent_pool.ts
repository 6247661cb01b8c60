import { isDeepStrictEqual } from 'node:util';
import {
  backOffMs,
  type CallName,
  HearthError,
  type Logger,
  type RequestOf,
  type ResponseOf,
  type StreamName,
} from '@hearth/common';
import type { GetStatusResponse } from '@hearth/common/generated/hearth/v1/control.ts';
import { type Clock, sleep } from '@hearth/common/kubernetes';
import { AgentConnection, type AgentEndpoint, type ClientIdentity, isRetryableElsewhere } from './agent_connection.ts';
import { type CallOptions, type ClusterAgents, type ClusterStatus, statusIntervalMs } from './agents.ts';
import { NodeReports } from './node_reports.ts';
import { StatusAssembly } from './status_assembly.ts';

const callDeadlineMs = 10_000;
const streamDeadlineMs = 60_000;
const maxTries = 3;
const backOff = { firstMs: 250, longestMs: 10_000 };
/** A status stream without messages for this time moves to another agent, ms. */
const maxSilenceMs = 120_000;
/** Minimum time between two messages about records, and between two statuses for the listeners, ms. */
const recordsIntervalMs = 1_000;
const publishMs = 500;
/** Time that the first status waits for the agents' own reports, ms: without them every cache seems empty. */
const firstReportsMs = 3_000;

export interface AgentPoolOptions {
  cluster: string;
  logger: Logger;
  connectMs: number;
  clock: Clock;
  onStatus: (before: ClusterStatus | undefined, after: ClusterStatus | undefined) => void;
}

/**
 * Connections to one cluster's agents. The status comes from a stream of records, which moves between agents with growing
 * pauses, and from a stream of each agent about itself.
 */
export class AgentPool implements ClusterAgents {
  readonly cluster: string;
  readonly #options: AgentPoolOptions;
  readonly #logger: Logger;
  readonly #clock: Clock;
  readonly #connections = new Map<string, AgentConnection>();
  readonly #ending = new AbortController();
  #identity: ClientIdentity | undefined;
  #endpoints: readonly AgentEndpoint[] = [];
  #status: ClusterStatus | undefined;
  #trouble: string | undefined;
  #preferred: string | undefined;
  #wake: AbortController = new AbortController();
  #following: Promise<void> | undefined;
  readonly #assembly = new StatusAssembly();
  readonly #reports: NodeReports;
  #publishing: Promise<void> | undefined;
  #publishedAt: number | undefined;
  #connected = false;

  constructor(options: AgentPoolOptions) {
    this.cluster = options.cluster;
    this.#logger = options.logger.child({ cluster: options.cluster });
    this.#options = options;
    this.#clock = options.clock;
    this.#reports = new NodeReports({
      clock: options.clock,
      connection: (endpoint) => this.#connection(endpoint),
      known: (node) => this.#assembly.markOf(node),
      onReport: (node, parts) => {
        this.#assembly.applyReport(node, parts);
        this.#publishSoon();
      },
      onFailure: (node, error) => {
        this.#logger.debug('lost the reports of an agent', { node, error });
        this.#assembly.failed(node, error.message);
        this.#publishSoon();
      },
    });
  }

  get status(): ClusterStatus | undefined {
    return this.#status;
  }

  get trouble(): string | undefined {
    return this.#trouble;
  }

  /** Closes connections to removed agents, or all of them for a new identity. */
  configure(identity: ClientIdentity, endpoints: readonly AgentEndpoint[]): void {
    const known = this.#identity;
    const renewed = known !== undefined && !isDeepStrictEqual(known, identity);
    const addresses = new Set(endpoints.map(({ address }) => address));
    const appeared = endpoints.some(({ address }) => !this.#endpoints.some((one) => one.address === address));
    this.#identity = identity;
    this.#endpoints = endpoints;
    for (const [address, connection] of this.#connections) {
      if (!renewed && addresses.has(address)) continue;
      this.#connections.delete(address);
      connection.close();
    }
    if (renewed || appeared) {
      const waiting = this.#wake;
      this.#wake = new AbortController();
      waiting.abort();
    }
    this.#following ??= this.#follow();
  }

  async call<Name extends CallName>(
    name: Name,
    request: RequestOf<Name>,
    options: CallOptions,
  ): Promise<ResponseOf<Name>> {
    const deadline = this.#clock.now() + (options.deadlineMs ?? callDeadlineMs);
    const signal = AbortSignal.any([options.signal, this.#ending.signal]);
    const tries = this.#candidates(options);
    let failure: HearthError | undefined;
    for (const [index, endpoint] of tries.entries()) {
      const share = (deadline - this.#clock.now()) / (tries.length - index);
      if (share <= 0) break;
      try {
        const answer = await this.#connection(endpoint).call(name, request, share, signal);
        if (options.node === undefined) this.#preferred = endpoint.node;
        return answer;
      } catch (thrown) {
        failure = HearthError.from(thrown);
        if (!isRetryableElsewhere(failure)) throw failure;
      }
    }
    throw failure ?? new HearthError('DeadlineExceeded', `no agent of cluster ${this.cluster} answered in time`);
  }

  async *stream<Name extends StreamName>(
    name: Name,
    request: RequestOf<Name>,
    options: CallOptions,
  ): AsyncGenerator<ResponseOf<Name>> {
    const deadline = this.#clock.now() + (options.deadlineMs ?? streamDeadlineMs);
    const signal = AbortSignal.any([options.signal, this.#ending.signal]);
    let failure: HearthError | undefined;
    for (const endpoint of this.#candidates(options)) {
      const remaining = deadline - this.#clock.now();
      if (remaining <= 0) break;
      let answered = false;
      try {
        for await (const answer of this.#connection(endpoint).stream(name, request, remaining, signal)) {
          answered = true;
          yield answer;
        }
        return;
      } catch (thrown) {
        failure = HearthError.from(thrown);
        if (answered || !isRetryableElsewhere(failure)) throw failure;
      }
    }
    throw failure ?? new HearthError('DeadlineExceeded', `no agent of cluster ${this.cluster} answered in time`);
  }

  async close(): Promise<void> {
    this.#ending.abort(new HearthError('Cancelled', `the agents of cluster ${this.cluster} are no longer wanted`));
    await this.#following;
    await this.#reports.close();
    await this.#publishing;
    for (const connection of this.#connections.values()) connection.close();
    this.#connections.clear();
    this.#notify(undefined);
  }

  /** Candidates, best first: the last that answered, ready ones, others. */
  #candidates({ node, feature }: Pick<CallOptions, 'node' | 'feature'>): AgentEndpoint[] {
    if (node !== undefined) {
      const endpoint = this.#endpoints.find((one) => one.node === node);
      if (endpoint !== undefined) return [endpoint];
      throw new HearthError('Unavailable', `no agent of cluster ${this.cluster} runs on node ${node}`);
    }
    const rank = (endpoint: AgentEndpoint): number => {
      const ready = this.#status?.nodes.get(endpoint.node)?.ready ?? true;
      if (!ready) return 2;
      return endpoint.node === this.#preferred ? 0 : 1;
    };
    const offers = ({ node }: AgentEndpoint) =>
      feature === undefined || this.#status?.nodes.get(node)?.apiFeatures.includes(feature) === true;
    const able = this.#endpoints.filter(offers);
    if (able.length === 0 && this.#endpoints.length > 0) {
      throw new HearthError(
        'Unavailable',
        `no agent of cluster ${this.cluster} offers "${feature}"; upgrade the agents`,
      );
    }
    const ranked = able.map((endpoint) => ({ endpoint, rank: rank(endpoint), chance: this.#clock.random() }));
    ranked.sort((a, b) => a.rank - b.rank || a.chance - b.chance);
    if (ranked.length === 0) {
      throw new HearthError('Unavailable', `no agent of cluster ${this.cluster} runs yet; look at its StorageCluster`);
    }
    return ranked.slice(0, maxTries).map(({ endpoint }) => endpoint);
  }

  #connection(endpoint: AgentEndpoint): AgentConnection {
    const found = this.#connections.get(endpoint.address);
    if (found !== undefined) return found;
    if (this.#identity === undefined) {
      throw new HearthError('Unavailable', `cluster ${this.cluster} has no certificates yet`);
    }
    const made = new AgentConnection(endpoint, this.#identity, this.#options.connectMs);
    this.#connections.set(endpoint.address, made);
    return made;
  }

  async #follow(): Promise<void> {
    let failures = 0;
    let failed: string | undefined;
    while (!this.#ending.signal.aborted) {
      let endpoint: AgentEndpoint | undefined;
      try {
        const candidates = this.#candidates({});
        endpoint = candidates.find(({ node }) => node !== failed) ?? (candidates[0] as AgentEndpoint);
        for await (const parts of this.#messages(endpoint)) {
          this.#take(parts);
          failures = 0;
          this.#trouble = undefined;
          this.#preferred = endpoint.node;
        }
      } catch (thrown) {
        if (this.#ending.signal.aborted) return;
        const error = HearthError.from(thrown);
        this.#trouble = endpoint === undefined ? error.message : `${endpoint.node}: ${error.message}`;
        if (endpoint !== undefined)
          this.#logger.debug('lost the status stream of an agent', { node: endpoint.node, error });
      }
      failed = endpoint?.node;
      if (failed === this.#preferred) this.#preferred = undefined;
      failures++;
      // One restart does not make the state unknown: another agent gets a chance first.
      if (failures > 1) this.#connected = false;
      if (failures > 1 && this.#status?.connected === true) this.#notify({ ...this.#status, connected: false });
      await this.#pause(failures);
    }
  }

  /** Takes all parts of a message about records. */
  #take(parts: readonly GetStatusResponse[]): void {
    for (const part of parts) this.#assembly.applyRecords(part, this.#clock.now());
    this.#connected = true;
    const reporting = new Set(parts[0]?.changes === undefined ? [] : this.#assembly.reporting());
    const endpoints = this.#endpoints.filter(({ node }) => reporting.has(node));
    this.#reports.follow(endpoints, statusIntervalMs(endpoints.length));
    if (endpoints.length === 0) this.#publish();
    else this.#publishSoon();
  }

  /** Makes one status of all that comes within a while. */
  #publishSoon(): void {
    this.#publishing ??= this.#wait().then(() => {
      this.#publishing = undefined;
      if (!this.#ending.signal.aborted) this.#publish();
    });
  }

  async #wait(): Promise<void> {
    const signal = this.#ending.signal;
    const last = this.#publishedAt;
    if (last !== undefined) return await sleep(this.#clock, Math.max(0, last + publishMs - this.#clock.now()), signal);
    const enough = new AbortController();
    void this.#reports.settled().then(() => enough.abort());
    await sleep(this.#clock, firstReportsMs, AbortSignal.any([signal, enough.signal]));
  }

  #publish(): void {
    const status = this.#assembly.build();
    if (status === undefined) return;
    this.#publishedAt = this.#clock.now();
    this.#notify({ ...status, connected: this.#connected });
  }

  async *#messages(endpoint: AgentEndpoint): AsyncGenerator<GetStatusResponse[]> {
    const silence = new AbortController();
    const signal = AbortSignal.any([this.#ending.signal, silence.signal]);
    const startTimer = () => this.#clock.schedule(maxSilenceMs, () => silence.abort());
    let cancelTimer = startTimer();
    try {
      const request = { intervalMs: statusIntervalMs(this.#endpoints.length), changesMs: recordsIntervalMs };
      let parts: GetStatusResponse[] = [];
      for await (const part of this.#connection(endpoint).stream('watchStatus', request, undefined, signal)) {
        cancelTimer();
        cancelTimer = startTimer();
        parts.push(part);
        if (part.changes?.more === true) continue;
        yield parts;
        parts = [];
      }
    } finally {
      cancelTimer();
    }
  }

  async #pause(failures: number): Promise<void> {
    const signal = AbortSignal.any([this.#ending.signal, this.#wake.signal]);
    await sleep(this.#clock, backOffMs(this.#clock, failures - 1, backOff), signal);
  }

  #notify(after: ClusterStatus | undefined): void {
    const before = this.#status;
    this.#status = after;
    if (before !== undefined || after !== undefined) this.#options.onStatus(before, after);
  }
}
