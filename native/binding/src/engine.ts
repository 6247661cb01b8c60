/**
 * The native engine as TypeScript sees it. Calls that take time are asynchronous; sizes and offsets beyond 2^53 are
 * bigint, counts are number. Errors are `HearthError` with a code of the error table. No method moves file bytes
 * through JavaScript but `read`, which serves `hearth cat` and tests.
 */
import type { ErrorCode } from '@hearth/common';
import type { ArenaPages } from './arena_statistics.ts';
import type { LimitOptions } from './limits.ts';
import type { ManifestBuilder, ManifestEntry, ManifestInfo } from './manifests.ts';
import type { RdmaOptions } from './rdma.ts';
import type { MirrorPlace, RevisionSource, SourceStatistics } from './sources.ts';
import type { Statistics } from './statistics.ts';
import type { EngineVolumes } from './volumes.ts';
import type { WarmOptions, WarmProgress } from './warm.ts';

export interface Address {
  host: string;
  port: number;
}

export interface CacheDirectoryOptions {
  path: string;
  /** Hard limit of allocated bytes. */
  budgetBytes: bigint;
  /** The file system is never filled beyond this much free space. */
  freeFloorBytes: bigint;
}

export interface EngineOptions {
  /** This agent's name, unique in the cluster. */
  node: string;
  /** Changes with every start of the agent; the same as in the cluster view. */
  incarnation: string;
  /** Cluster name; peers of another cluster are refused. */
  cluster: string;
  /** Cluster secret, at least 16 bytes, proved in both directions before anything else is said. */
  secret: Uint8Array;
  /** One listener a NIC address; port 0 takes a free one. */
  listen: Address[];
  cacheDirectories: CacheDirectoryOptions[];
  /** Threads that own keys; 0 chooses by the number of cores. */
  shards: number;
  /** Parallel requests to origins, over all keys. */
  originConnections: number;
  /** Bytes of memory for chunks, all shards together. */
  bufferBytes: bigint;
  /** Bytes of memory for whole files, beside the memory for chunks; 0: none. Needs a holder. */
  memoryBytes: bigint;
  /** The best pages that are asked for the memory for chunks. */
  arenaPages: ArenaPages;
  /** Socket of hearth-holder, which owns FUSE mounts and keeps that memory for the next agent; empty: none. */
  holder: string;
  /** Socket at which programs of this node get files that are here whole (docs/clients.md); empty: none. */
  clientSocket: string;
  /**
   * Folder on a tmpfs that outlives the agent, where changes of volumes are safe before the disk has them; it is made in
   * one that exists. Empty: they wait for the disk.
   */
  volumeTails: string;
  /** Bytes a second that the background scrub reads of each cache directory; 0: no scrub. */
  scrubBytesPerSecond: bigint;
  /** Limits on resources that this node shares with others. */
  limits: LimitOptions;
  /** Over which ports this agent reads from others, beside TCP. */
  rdma: RdmaOptions;
  /** File with certificate authorities for https origins; empty: the system's. */
  certificateAuthorities: string;
  /** Refuses origins whose address is loopback, link-local or private, after name look-up and every redirect. */
  forbidPrivateAddresses: boolean;
  /** Networks (CIDR) that are allowed all the same. */
  allowedNetworks: string[];
  /** How origins are asked; the environment of the process is not read. */
  proxies: ProxyOptions;
  /** Called on the JavaScript thread with every event of the engine. */
  onEvent: (event: EngineEvent) => void;
}

/** The rules of HTTP_PROXY, HTTPS_PROXY and NO_PROXY (native/origin/proxy_choice.h); '' where there is none. */
export interface ProxyOptions {
  http: string;
  https: string;
  none: string;
}

/** An event of the engine, delivered by its one thread-safe function. */
export type EngineEvent =
  /** Locations of these entries are needed, for this dataset: answer with `setLocations` or `failLocations`. */
  | {
      kind: 'locations';
      manifest: string;
      dataset: string;
      /** Of which source: 0 the first, 1 the first of its mirrors. */
      source: number;
      entries: number[];
      /** No reader waits for these yet; to be answered as well where that costs no request each. */
      ahead: number[];
    }
  /** A log line; fields carry no secrets. */
  | { kind: 'log'; level: 'debug' | 'info' | 'warn' | 'error'; message: string; fields: Record<string, string> }
  /** The origin no longer has what the manifest says: the revision has failed. */
  | { kind: 'originChanged'; manifest: string; dataset: string; entry: number; message: string }
  /** A mount ended without us (umount by hand, aborted by the holder). */
  | { kind: 'mountEnded'; target: string; message: string };

/**
 * A manifest as the revision of one dataset. Datasets may share a manifest, and then share its bytes; origins are only
 * ever read by the locations of the dataset that is named here, which are its own credentials'.
 */
export interface DatasetRevision {
  manifest: string;
  /** The dataset's name. '': of no dataset, for what needs nothing from an origin. */
  dataset: string;
}

/** Where an entry's bytes can be read now. A bearer secret: kept in memory, never logged, never sent to peers. */
export interface Location {
  entry: number;
  /** Exactly one of url, path and node. */
  url?: string;
  path?: string;
  /** Whose agent has the file of a writable volume. */
  node?: string;
  /** With path: an absolute directory above it. Below it no symbolic link is followed, whoever puts one there. */
  below?: string;
  headers?: Record<string, string>;
  /** Milliseconds since the epoch; absent: does not expire. */
  expiresAt?: number;
}

export interface HolderSight {
  /** Of the program: its version and a digest of its sources, as `0.1.0+2b6f0c1a9e34`. */
  release: string;
  /** Of the holder that was built with this engine. */
  expected: string;
  /** A capability that this engine could use and the machine lacks, in words; '' for nothing. */
  missing: string;
}

export interface Peer {
  node: string;
  /** Changes with every start of the agent. */
  incarnation: string;
  addresses: Address[];
  zone: string;
  rack: string;
  /** Only ready agents are directories of keys and sources. */
  ready: boolean;
}

export interface Evicted {
  /** From the cache. */
  bytesFreed: bigint;
  filesFreed: number;
  /** From memory, of these files and of those that stay. */
  memoryBytesFreed: bigint;
  /** Files that stay, and how many of them for each reason. */
  kept: number;
  pinned: number;
  inUse: number;
  published: number;
}

export interface Residency {
  bytesTotal: bigint;
  bytesResident: bigint;
  /** Of files that are whole in memory, where mounts read them by passthrough. */
  bytesInMemory: bigint;
  /** Of files that are being brought there. */
  bytesComingToMemory: bigint;
  filesTotal: number;
  filesComplete: number;
  viewPath: string;
}

export type DataPath = 'view' | 'passthrough' | 'daemon' | 'through';

export interface MountOptions extends DatasetRevision {
  target: string;
  /** `hearth:` and the dataset's name: shown as the file system's source and by xattr `user.hearth.source`. */
  source: string;
  /** 'auto': the view when complete and possible, else FUSE; 'daemon': FUSE without passthrough. */
  dataPath: 'auto' | 'view' | 'fuse' | 'daemon';
}

export interface MountInfo {
  target: string;
  manifest: string;
  source: string;
  /** 'through': FUSE too, and lately the cache could not keep what readers needed. */
  dataPath: 'view' | 'fuse' | 'daemon' | 'through';
  /** Why not a better path; empty when there is none better. */
  reason: string;
  readsServed: bigint;
  bytesServed: bigint;
  passthroughOpens: bigint;
  daemonOpens: bigint;
}

export interface VerifyResult {
  bytes: bigint;
  /** SHA-256 of the bytes read through the engine. */
  sha256: string;
  /** Bytes of this file fetched for the verification, by source. */
  originBytes: bigint;
  peerBytes: bigint;
  /** Blocks that were bad on this node and were repaired. */
  repairedBlocks: bigint;
  /** Names of these blocks: `blocks 5, 144-145`. */
  repaired: string;
}

/** One row of `hearth doctor`. */
export interface Probe {
  name: string;
  status: 'ok' | 'degraded' | 'missing';
  detail: string;
  /** The next step for the reader; empty when ok. */
  advice: string;
}

/** Tokens of clients that agents refuse before they expire. */
export interface RevokedTokens {
  /** SHA-256 of their claims in hexadecimal digits. */
  tokens: string[];
  /** `NAMESPACE/UID`: all tokens of these pods. */
  pods: string[];
  /** All tokens of all pods in these namespaces. */
  namespaces: string[];
}

export interface Engine extends EngineVolumes {
  /** Listening addresses with the real ports. */
  addresses(): Address[];
  /** Ends every native thread; afterwards no event comes. Idempotent. */
  close(): Promise<void>;
  /** The whole cluster view, ourselves included; replaces the former one. */
  setCluster(peers: Peer[]): Promise<void>;
  /**
   * The datasets that clients may name in paths, all of them; their manifests are open. `awaited`: names of those that will
   * be: until then clients ask again. Before the first call they do so for every name.
   */
  nameDatasets(revisions: DatasetRevision[], awaited: string[]): void;
  /** Refuses these tokens of clients, and ends their connections; replaces the former list. */
  setRevokedTokens(tokens: RevokedTokens): Promise<void>;

  createManifestBuilder(options: { skipUnusable: boolean }): ManifestBuilder;
  /** Writes the manifest under its digest; the builder is spent. */
  finishManifest(builder: ManifestBuilder): Promise<ManifestInfo>;
  /** From disk, else from any ready peer. `NotFound` when no peer has it. */
  openManifest(digest: string): Promise<ManifestInfo>;
  removeManifest(digest: string): Promise<void>;
  manifests(): Promise<ManifestInfo[]>;
  /** Children of a directory (`path` '' is the root), or all files in path order when `recursive`. */
  entries(
    digest: string,
    options: { path: string; recursive: boolean; offset: number; limit: number },
  ): Promise<ManifestEntry[]>;
  /** These entries, in the order asked; `InvalidArgument` for an index that the manifest does not have. */
  entriesAt(digest: string, indexes: number[]): Promise<ManifestEntry[]>;

  /** The mirrors that the dataset has from now on; the same in the same order change nothing. */
  setMirrors(of: DatasetRevision, mirrors: MirrorPlace[]): void;
  /** How long each read of the dataset waits for an origin that is away, milliseconds; 0: it does not wait. */
  setOriginWait(of: DatasetRevision, ms: number): void;
  /** Findings about each source: the first one, and the mirrors in their order. */
  sources(of: DatasetRevision): SourceStatistics[];
  /** For sources whose every location is base + path: the engine then asks no questions. */
  setOriginBase(of: RevisionSource, base: Pick<Location, 'url' | 'path' | 'below' | 'headers'>): void;
  setLocations(of: RevisionSource, locations: Location[]): void;
  failLocations(of: RevisionSource, entries: number[], error: { code: ErrorCode; message: string }): void;
  /** Forgets what was set: the dataset has other credentials now, or is gone. */
  forgetLocations(of: RevisionSource): void;

  /** Begins a warm job and returns at once; `AlreadyExists` when the name is taken. */
  warm(options: WarmOptions): Promise<void>;
  warmProgress(job: string): Promise<WarmProgress>;
  setWarmRate(job: string, rateLimit: bigint): void;
  /** Ends a running job, forgets an ended one. */
  cancelWarm(job: string): Promise<void>;

  residency(digest: string): Promise<Residency>;
  /** Pins have owners; a content key is pinned while any owner pins it. */
  pin(digest: string, entries: number[] | undefined, owner: string): Promise<void>;
  unpin(digest: string, owner: string): Promise<void>;
  evict(digest: string, entries: number[] | undefined): Promise<Evicted>;
  /** DONTNEED, which is counted: `copy` is `evict`, `memory` what is in memory that no reader is on its way to. */
  letGo(digest: string, entries: number[] | undefined, what: 'copy' | 'memory'): Promise<Evicted>;
  /** Last use in the cluster of a dataset's keys, milliseconds since the epoch: input of the eviction order. */
  setLastUse(digest: string, usedAt: number): void;

  /** Reads one file whole (fetching what is missing), with its checksums. `origin` compares with the origin's bytes too. */
  verify(of: DatasetRevision, entry: number, mode: 'cache' | 'origin'): Promise<VerifyResult>;
  read(of: DatasetRevision, entry: number, offset: bigint, length: number): Promise<Uint8Array>;

  /** Links the complete dataset as a tree and returns its path; `Unsupported` or `NotFound` with the reason when it cannot. */
  buildView(digest: string): Promise<string>;
  mount(options: MountOptions): Promise<MountInfo>;
  unmount(target: string): Promise<void>;
  mounts(): Promise<MountInfo[]>;
  /** Takes over the mounts that the holder has for us; returns their targets. */
  resumeMounts(): Promise<string[]>;
  /** The greeting of the holder at a socket. `Unavailable` when none answers. */
  holder(socket: string): Promise<HolderSight>;

  statistics(): Promise<Statistics>;
}
