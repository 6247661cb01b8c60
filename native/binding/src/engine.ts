/**
 * The native engine as TypeScript sees it. Calls that take time are asynchronous; sizes and offsets beyond 2^53 are
 * bigint, counts are number. Errors are `HearthError` with a code of the error table. No method moves file bytes
 * through JavaScript but `read`, which serves `hearth cat` and tests.
 */
import type { ErrorCode } from '@hearth/common';
import type { ArenaPages, ArenaStatistics } from './arena_statistics.ts';
import type { CopyStatistics } from './copy_statistics.ts';
import type { LimitOptions, LimitStatistics } from './limits.ts';
import type { RdmaOptions, RdmaPeerStatistics, RdmaStatistics } from './rdma.ts';
import type { MirrorPlace, RevisionSource, SourceStatistics } from './sources.ts';

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
  /** The best pages that are asked for that memory. */
  arenaPages: ArenaPages;
  /** Socket of hearth-holder, which owns FUSE mounts and keeps that memory for the next agent; empty: none. */
  holder: string;
  /** Socket at which programs of this node get files that are here whole (docs/clients.md); empty: none. */
  clientSocket: string;
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
  /** Exactly one of url and path. */
  url?: string;
  path?: string;
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

export type EntryKind = 'file' | 'directory' | 'symlink';

/** One row for the manifest builder. Directories that only hold other rows are made by the builder. */
export interface ManifestRow {
  /** Relative, '/' between names, valid UTF-8. */
  path: string;
  kind: EntryKind;
  /** Bytes; 0 but for files. */
  size: bigint;
  /** Files: SHA-256 that names the content, 64 hexadecimal digits. */
  contentKey?: string;
  /** Files: offset of the bytes in the origin's object. */
  objectOffset?: bigint;
  /** Files: SHA-256 of the bytes as the origin gives it, if it does. */
  sourceDigest?: string;
  /** Files: what must still be true of the origin's object: `etag:"..."`, `compared-etag:"..."`, `modified:<HTTP date>`, `stat:<mtimeNs>:<ctimeNs>`, or empty. */
  validator?: string;
  executable?: boolean;
  symlinkTarget?: string;
  modifiedAtNs?: bigint;
}

export interface ManifestInfo {
  /** SHA-256 of the manifest, 64 hexadecimal digits. */
  digest: string;
  entries: number;
  files: number;
  directories: number;
  symlinks: number;
  /** Sum of all files' sizes. */
  bytes: bigint;
}

export interface ManifestEntry {
  index: number;
  path: string;
  kind: EntryKind;
  size: bigint;
  contentKey: string;
  sourceDigest: string;
  validator: string;
  symlinkTarget: string;
  executable: boolean;
  /** Bytes of this file resident on this agent. */
  residentBytes: bigint;
}

export interface ManifestBuilder {
  /** Rows in any order. */
  add(rows: ManifestRow[]): void;
  /** Names that were refused so far (first ten): `path: reason`. With `skipUnusable` they are left out, else finish fails. */
  unusable(): string[];
}

export interface WarmOptions extends DatasetRevision {
  /** Name of the job, unique on this agent. */
  job: string;
  /** Entries (files); absent: all. */
  entries?: number[];
  /** Of jobs that want the same buffers the lowest goes first; demand reads are before all jobs. */
  priority: number;
  /** Bytes a second from the origin; 0: no limit. */
  rateLimit: bigint;
  /** Bytes a second from other agents; 0: no limit. */
  peerRateLimit: bigint;
  /** 'checksum': CRC32C of every block once more from disk; 'digest': also SHA-256 against the origin's digest where known. */
  verify: 'none' | 'checksum' | 'digest';
  /**
   * It is WILLNEED, and is counted. `agents`: for the cluster, with the names of all that bring their part: this agent's
   * is what it brings, without what others hold, and nothing is verified.
   */
  advice?: { agents?: string[] };
}

export interface WarmProgress {
  state: 'running' | 'verifying' | 'succeeded' | 'failed' | 'cancelled';
  bytesTotal: bigint;
  /** In the cache files. */
  bytesReady: bigint;
  /** These, and what is in memory on its way there: other agents and mounts read it already. */
  bytesInMemory: bigint;
  filesTotal: number;
  filesReady: number;
  filesVerified: number;
  /** Bytes this job fetched from the origin and from peers; the rest was here already. */
  originBytes: bigint;
  peerBytes: bigint;
  /** Bytes that were read from disk again and compared as `verify` asks. */
  bytesVerified: bigint;
  error?: { code: ErrorCode; message: string };
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

export interface DirectoryStatistics {
  path: string;
  budgetBytes: bigint;
  usedBytes: bigint;
  freeFloorBytes: bigint;
  fileSystemFreeBytes: bigint;
}

export interface Statistics {
  uptimeSeconds: number;
  backend: 'io_uring' | 'epoll';
  shards: number;
  directories: DirectoryStatistics[];
  contentKeys: number;
  residentBytes: bigint;
  pinnedBytes: bigint;
  originBytes: bigint;
  originRequests: bigint;
  originRetries: bigint;
  /** Of the requests and bytes: what was asked for again, as the first transfer was a straggler; how often that was faster. */
  originHedgedRequests: bigint;
  originHedgedBytes: bigint;
  originHedgesWon: bigint;
  /** Hosts that were asked lately (`scheme://name:port`), and how many requests each may be asked at a time now, of all shards. */
  originHosts: { host: string; parallelism: number }[];
  /** Bytes of files, without what the protocol adds. */
  peerBytesReceived: bigint;
  peerBytesSent: bigint;
  peerRequests: bigint;
  corruptBlocks: bigint;
  /** Of the residency logs, at the start: bytes that are no records. */
  lostLogBytes: bigint;
  /** Files that may lack bytes which a damaged log claims, and are not checked yet. */
  doubtfulFiles: bigint;
  /** Files that were dropped, as they were not what their origin's digest says. */
  digestMismatches: bigint;
  scrubBytes: bigint;
  scrubBadBlocks: bigint;
  scrubRepairedChunks: bigint;
  /** Chunks that the scrub found bad and that could be had from nowhere then. */
  scrubLostChunks: bigint;
  evictedFiles: bigint;
  evictedBytes: bigint;
  copies: CopyStatistics;
  demandReads: bigint;
  demandBytes: bigint;
  /** Of WILLNEED: how often it was asked for, and the sizes of the files. */
  willNeed: bigint;
  willNeedBytes: bigint;
  /** Of DONTNEED: how often it was asked for, and the bytes that were let go. */
  dontNeed: bigint;
  dontNeedBytes: bigint;
  /** Times that no directory of a key answered and the origin was read without a grant. */
  directoryBypassed: bigint;
  /** Agents that did not answer in time as the directory of a key, or for their part in one. */
  directoryUnanswered: bigint;
  /** Bytes that came in for readers and could not be kept, for want of room or because the disk failed. */
  throughBytes: bigint;
  /** Opens and reads through mounts that were answered with an error, by its code. */
  failedReads: Record<Exclude<ErrorCode, 'Ok'>, bigint>;
  /** Chunk buffers in use now. */
  buffersInUse: number;
  /** Bytes in memory that are not in the cache files yet. */
  writeBackBytes: bigint;
  clients: ClientStatistics;
  /** One for each limit of the node, also where it is not set. */
  limits: LimitStatistics[];
  /** Memory for chunks. */
  arena: ArenaStatistics;
  /** The most calls that waited for one shard at a time since the start. */
  longestQueue: number;
  rdma: RdmaStatistics;
  peers: PeerStatistics[];
}

/** Reads of clients (libgd2fs) over the network. */
export interface ClientStatistics {
  /** That may be on their way to clients at a time, and that are. */
  limitBytes: bigint;
  bytes: bigint;
  /** Reads that wait for the limit now, and that have waited since the start. */
  waiting: bigint;
  waited: bigint;
}

/** Of one other agent, as this one asks it. */
export interface PeerStatistics {
  node: string;
  connected: boolean;
  streams: number;
  bytesReceived: bigint;
  /** Of the wire protocol, as agreed with it; 0 before the first connection. */
  wireVersion: number;
  /** Names of features that this agent has and the peer lacks, with ", " between; an earlier release has fewer. */
  featuresOff: string;
  /** Slices that were asked for again on another connection, because theirs had fallen silent. */
  hedged: bigint;
  /** How often a connection had. */
  paused: bigint;
  /** Why the last connection failed or ended. */
  error: string;
  rdma: RdmaPeerStatistics;
}

export interface VerifyResult {
  bytes: bigint;
  /** SHA-256 of the bytes read through the engine. */
  sha256: string;
  /** Bytes of this file fetched for the verification, by source. */
  originBytes: bigint;
  peerBytes: bigint;
}

/** One row of `hearth doctor`. */
export interface Probe {
  name: string;
  status: 'ok' | 'degraded' | 'missing';
  detail: string;
  /** The next step for the reader; empty when ok. */
  advice: string;
}

export interface Engine {
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
