import type { ErrorCode } from '@hearth/common';
import type { DatasetRevision } from './engine.ts';

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
  /** The files stay in memory before those of jobs that do not ask for it. */
  memory?: boolean;
  /** The job waits for an origin that is away until it is cancelled; else for as long as reads of the dataset do. */
  hasDeadline: boolean;
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
  /** Why a running job brings nothing: the origin is away, in a sentence. Empty: it waits for nothing. */
  waitingFor: string;
  error?: { code: ErrorCode; message: string };
}
