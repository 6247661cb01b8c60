import type { ErrorCode } from '@hearth/common';
import type { ArenaStatistics } from './arena_statistics.ts';
import type { CopyStatistics } from './copy_statistics.ts';
import type { LimitStatistics } from './limits.ts';
import type { MemoryFilesStatistics } from './memory_files_statistics.ts';
import type { RdmaPeerStatistics, RdmaStatistics } from './rdma.ts';

export interface DirectoryStatistics {
  path: string;
  budgetBytes: bigint;
  usedBytes: bigint;
  freeFloorBytes: bigint;
  fileSystemFreeBytes: bigint;
  /** Why no new files are stored there; empty: they are. */
  failure: string;
  /** While its disk hangs: some of the files that are in use there, by name where it is known, else by content key. */
  waiting: string[];
  /** All of them. */
  waitingFiles: number;
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
  memoryFiles: MemoryFilesStatistics;
  /** The most calls that waited for one shard at a time since the start. */
  longestQueue: number;
  rdma: RdmaStatistics;
  peers: PeerStatistics[];
}

/** Reads of clients (libgd2fs) over the network. */
export interface ClientStatistics {
  /** Bytes that may be on their way to clients at a time, and that are. */
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
