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
  /** Requests of this node's mounts that this agent ended at the volume's deadline. */
  overdueRequests: bigint;
  /** Requests that the mount holder ended, because no agent had served the mount for the volume's deadline. */
  unservedRequests: bigint;
  /** Calls of this node's mounts by name (lookup, create, publish, ...): number, failures, and the sum of their time. */
  operations: { name: string; count: bigint; failed: bigint; seconds: number }[];
}

/** Of a name in a volume, as its leader has it. */
export interface PublishedAttributes {
  inode: bigint;
  kind: 'file' | 'folder' | 'symlink' | 'FIFO' | 'socket';
  /** Of the content that was published last. */
  size: bigint;
  mode: number;
  modifiedAtNs: bigint;
  /** Grows with each change of these. */
  version: bigint;
}

export interface PublishedEntry extends PublishedAttributes {
  /** Bytes without '/' and NUL. */
  name: Uint8Array;
  /** The listing goes on behind it. */
  cookie: bigint;
  /** Of a file, when contents were asked for: mounts of the volume read the bytes under it. */
  contentKey: string;
  /** Of a symlink, when contents were asked for. */
  target: Uint8Array;
}

export interface PublishedFolder {
  entries: PublishedEntry[];
  more: boolean;
}

export interface PublishedContent {
  contentKey: string;
  size: bigint;
  /** That wrote the file; '': it has left the volume. */
  node: string;
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
  /**
   * Asks the leader for a path below the root, '' for the root itself. This and the next two throw `NotFound` for a
   * volume that is not known or was deleted, and `Unavailable` when no leader answers by the volume's deadline.
   */
  lookUpInVolume(id: string, path: string): Promise<PublishedAttributes>;
  /**
   * The first thousand entries behind a cookie, 0 for the first of all. Throws `OriginChanged` when the folder or a
   * file of it went meanwhile.
   */
  listVolumeFolder(id: string, folder: bigint, after: bigint, contents: boolean): Promise<PublishedFolder>;
  /** What files hold now, in their order; undefined for one that is gone or empty. */
  volumeContents(id: string, inodes: readonly bigint[]): Promise<(PublishedContent | undefined)[]>;
  volumeStatistics(): Promise<VolumeStatistics[]>;
}
