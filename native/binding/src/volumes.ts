/** Writable volumes as the engine knows them. Ids are 32 hexadecimal digits. */
export interface VolumeOptions {
  id: string;
  /** Of the store that has the volume's record: ids are never used twice within one. */
  store: string;
  name: string;
  /** Every operation of a mount ends by then, with an errno. */
  deadlineMs: number;
  /** Of published files; 0: no limit. */
  maxBytes: bigint;
  maxInodes: bigint;
}

export interface VolumeLease {
  id: string;
  /** Given by the store, and higher than in every earlier term, also of this node. */
  epoch: bigint;
  /** Milliseconds of CLOCK_BOOTTIME until which this agent may answer as the leader. */
  until: number;
}

export interface VolumeStatistics {
  id: string;
  leads: boolean;
  epoch: bigint;
  /** Why the leader's log cannot be written; empty: it can. */
  error: string;
  bytes: bigint;
  inodes: bigint;
  /** By the leader, since its term began; of these, files that had changed less than an hour before. */
  evictedFiles: bigint;
  evictedYoungFiles: bigint;
  /** Session files of this node. */
  sessions: number;
  sessionBytes: bigint;
  /** Calls of this node's mounts by name (lookup, create, publish, ...): number, failures, and the sum of their time. */
  operations: { name: string; count: bigint; failed: bigint; seconds: number }[];
}

export interface EngineVolumes {
  /** All volumes that there are; those that are left out are closed here, and their mounts answer ENOENT. */
  setVolumes(volumes: VolumeOptions[]): Promise<void>;
  /** The agent that leads now; undefined: calls wait for the next one until their deadline. */
  setVolumeLeader(id: string, leader: { node: string; epoch: bigint } | undefined): void;
  /** Recovers the log of the volume on this node and begins a term; `Conflict` for an epoch that is not higher. */
  leadVolume(lease: VolumeLease): Promise<void>;
  /** The store has renewed the lease. */
  extendVolumeLease(lease: VolumeLease): void;
  /** Answers nothing more as the leader; waits for what is under way. */
  resignVolume(id: string): Promise<void>;
  /** Removes the log and all chunks of a volume that is in no list any more. */
  removeVolume(id: string): Promise<void>;
  mountVolume(options: { target: string; id: string; source: string }): Promise<void>;
  volumeStatistics(): Promise<VolumeStatistics[]>;
}
