import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { controlApi, HearthError, silentLogger } from '@hearth/common';
import { RunningClock } from '@hearth/common/testing';
import type { Address, EngineEvent, ManifestRow, Probe } from '@hearth/engine';
import { Agent } from '../agent/agent.ts';
import type { Member, Members, Timings } from '../context.ts';
import type { OpenOrigin } from '../datasets/index.ts';
import type { Peers } from '../peers/index.ts';
import { Session } from '../records/index.ts';
import { type LeaseId, MeteredStore, openStore, type Store } from '../store/index.ts';
import { CutStore } from './cut_store.ts';
import { FakeDisk } from './fake_disk.ts';
import { FakeEngine } from './fake_engine.ts';
import { FakeFabric } from './fake_fabric.ts';
import { FakeOrigin } from './fake_origin.ts';

export const testTimings: Timings = {
  progressMs: 40,
  divisionMs: 150,
  electionMs: 60,
  statisticsMs: 60,
  earlierReleasesMs: 60,
  lastUseMs: 100,
  endedJobMs: 3_600_000,
  goneGraceMs: 600,
  // Exceeds the time that a busy machine may delay an agent between two renewals.
  leaseSeconds: 10,
  requestMs: 60_000,
  unnamedMountMs: 60_000,
  publishedScanMs: 100,
  probeMs: 100,
  seenMs: 200,
  departedMs: 86_400_000,
  storeLookMs: 60,
  listingMs: 600_000,
};

export const noCredentials = { token: '', accessKeyId: '', secretAccessKey: '', sessionToken: '' };

/** One agent of a test cluster; its disk outlives it. */
export interface TestAgent {
  agent: Agent;
  engine: FakeEngine;
  store: CutStore;
  session: Session;
}

/** Agents in this process on one SQLite store, with fake engines on one fabric and one fake origin. */
export class TestCluster {
  readonly fabric = new FakeFabric();
  /** Clock of all agents and the origin. */
  readonly clock = new RunningClock();
  readonly agents = new Map<string, TestAgent>();
  readonly disks = new Map<string, FakeDisk>();
  readonly origin: FakeOrigin;
  readonly openOrigin: OpenOrigin;
  /** Tokens with which origins were opened, in order; undefined: the agent's own identity. */
  readonly openedWith: (string | undefined)[] = [];
  readonly timings: Timings;
  /** Must be set before agents start. */
  listing = { entries: 1_000, nameBytes: 100_000 };
  /** Probe rows of every machine. */
  probes: Probe[] = [];
  /** Agents whose control API can neither call nor be called. */
  readonly unreachable = new Set<string>();
  /** Live agents that have no cache in the view of others. */
  readonly withoutCache = new Set<string>();
  /** Addresses at which agents answer peers and clients, in the view of others. */
  readonly wires = new Map<string, Address[]>();
  /** Agents whose control API lacks all features. */
  readonly earlierReleases = new Set<string>();
  readonly #folder: string;
  readonly #store: Store;
  readonly #listeners = new Set<() => void>();
  /** Leases of agents that were removed as by a crash. */
  readonly #left = new Map<string, LeaseId>();
  readonly #places = new Map<string, { zone: string; rack: string }>();

  private constructor(folder: string, store: Store, rows: ManifestRow[], timings: Partial<Timings>) {
    this.#folder = folder;
    this.#store = store;
    this.origin = new FakeOrigin(rows, this.clock);
    this.openOrigin = (_source, _revision, credentials) => {
      this.openedWith.push(credentials?.token);
      return this.origin;
    };
    this.timings = { ...testTimings, ...timings };
  }

  /** `open`: opens the store of all agents, given a folder that the cluster removes at its end. */
  static async start(
    names: string[],
    rows: ManifestRow[],
    timings: Partial<Timings> = {},
    open: (folder: string) => Promise<Store> = (folder) => openStore(`sqlite:${join(folder, 'store.sqlite')}`),
  ): Promise<TestCluster> {
    const folder = await mkdtemp(join(tmpdir(), 'hearth-agents-'));
    const cluster = new TestCluster(folder, await open(folder), rows, timings);
    for (const name of names) await cluster.add(name);
    return cluster;
  }

  agent(name: string): Agent {
    return this.#member(name).agent;
  }

  engine(name: string): FakeEngine {
    return this.#member(name).engine;
  }

  store(name: string): CutStore {
    return this.#member(name).store;
  }

  get folder(): string {
    return this.#folder;
  }

  /** Volume folder of an agent. */
  volumesOf(name: string): string {
    return join(this.#folder, 'volumes', name);
  }

  /** Starts an agent, on its previous disk if there is one. */
  async add(name: string): Promise<Agent> {
    const cut = new CutStore(this.#store);
    const store = new MeteredStore(cut);
    const disk = this.disks.get(name) ?? new FakeDisk();
    this.disks.set(name, disk);
    let agent: Agent | undefined;
    const engine = new FakeEngine(
      this.fabric,
      engineOptions(name, (event) => agent?.onEvent(event)),
      disk,
    );
    const session = new Session(store, silentLogger, this.timings.leaseSeconds, this.clock);
    const context = {
      node: name,
      installation: `disk of ${name}`,
      store,
      engine,
      session,
      members: this.#members(name),
      logger: silentLogger,
      clock: this.clock,
      timings: this.timings,
      listing: this.listing,
    };
    agent = new Agent(context, {
      openOrigin: this.openOrigin,
      holder: '/holder.sock',
      volumes: this.volumesOf(name),
      probe: async () => this.probes,
      peers: this.#peers(name),
      storeMaintenance: true,
    });
    this.agents.set(name, { agent, engine, store: cut, session });
    await this.#changed();
    await agent.start(AbortSignal.timeout(300_000));
    return agent;
  }

  /** Stops an agent cleanly, or as by a crash, which leaves its lease until expiry or `endLease`. */
  async remove(name: string, how: 'orderly' | 'crash' = 'orderly'): Promise<void> {
    const { agent, engine, store, session } = this.#member(name);
    this.agents.delete(name);
    if (how === 'crash') {
      this.#left.set(name, await session.lease());
      await store.close();
      await engine.close();
      await this.#changed();
      await Promise.all([agent.close(), session.close()]);
      return;
    }
    await agent.close();
    await session.close();
    await engine.close();
    await store.close();
    await this.#changed();
  }

  /** Expires the lease of a crashed agent. */
  async endLease(name: string): Promise<void> {
    const lease = this.#left.get(name);
    if (lease === undefined) throw new Error(`agent ${name} left no lease in the test`);
    this.#left.delete(name);
    await this.#store.revokeLease(lease);
  }

  async close(): Promise<void> {
    for (const name of [...this.agents.keys()]) await this.remove(name);
    await this.#store.close();
    await rm(this.#folder, { recursive: true });
  }

  #member(name: string): TestAgent {
    const member = this.agents.get(name);
    if (member === undefined) throw new Error(`there is no agent ${name} in the test`);
    return member;
  }

  #peers(own: string): Peers {
    const reach = (node: string): Agent => {
      if (this.unreachable.has(node) || this.unreachable.has(own)) {
        throw new HearthError('Unavailable', `agent ${node} is cut off`);
      }
      return this.agent(node);
    };
    return {
      names: () => [...this.agents.keys()].filter((node) => node !== own),
      setCredentials: async (node, { dataset, credentials }) =>
        reach(node).credentialSharing.take(dataset, credentials ?? noCredentials),
      getCredentials: async (node, { dataset }) => {
        const cache = reach(node).credentials;
        return { known: cache.has(dataset), credentials: cache.has(dataset) ? cache.of(dataset) : undefined };
      },
      report: async (node, datasets) => {
        const only = datasets.length === 0 ? undefined : new Set(datasets);
        return reach(node).statistics.history.since(undefined, only);
      },
      close: () => {},
    };
  }

  #members(own: string): Members {
    return {
      all: () => [...this.agents.keys()].sort().map((node) => ({ ...this.#memberOf(node), ...this.#places.get(node) })),
      names: () => new Set(this.agents.keys()),
      caching: () => new Set([...this.agents.keys()].filter((node) => !this.withoutCache.has(node))),
      ready: () => [...this.agents.keys()],
      onChange: (listener) => {
        this.#listeners.add(listener);
        return () => void this.#listeners.delete(listener);
      },
      setPlace: (zone, rack) => {
        this.#places.set(own, { zone, rack });
        for (const listener of this.#listeners) listener();
      },
    };
  }

  #memberOf(node: string): Member {
    const apiFeatures = this.earlierReleases.has(node) ? [] : [...controlApi.apiFeatures];
    const addresses = { wire: this.wires.get(node) ?? [], control: '', health: '', socket: '', zone: 'z', rack: '' };
    return { node, ready: true, reason: '', ...addresses, version: '0.1.0', apiVersion: 1, apiFeatures };
  }

  async #changed(): Promise<void> {
    const peers = [...this.agents.keys()].map((node) => ({
      node,
      incarnation: '1',
      addresses: [],
      zone: '',
      rack: '',
      ready: true,
    }));
    for (const { engine } of this.agents.values()) await engine.setCluster(peers);
    for (const listener of this.#listeners) listener();
  }
}

const noRates = { total: 0n, warm: 0n };

export function engineOptions(node: string, onEvent: (event: EngineEvent) => void) {
  return {
    node,
    cluster: 'test',
    secret: new Uint8Array(16),
    listen: [{ host: '127.0.0.1', port: 0 }],
    cacheDirectories: [{ path: `/cache/${node}`, budgetBytes: 1n << 40n, freeFloorBytes: 0n }],
    shards: 1,
    originConnections: 4,
    bufferBytes: 1n << 26n,
    memoryBytes: 0n,
    arenaPages: 'transparent' as const,
    holder: '/holder.sock',
    scrubBytesPerSecond: 0n,
    limits: { origin: noRates, peers: noRates, disk: noRates },
    rdma: { use: 'off' as const, devices: [], library: '' },
    certificateAuthorities: '',
    incarnation: '1',
    clientSocket: '',
    volumeTails: '',
    forbidPrivateAddresses: false,
    allowedNetworks: [],
    proxies: { http: '', https: '', none: '' },
    onEvent,
  };
}
