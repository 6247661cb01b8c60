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
  /** When a term begins: the nodes that the store lists as followers. */
  followers: string[];
}

/** The followers of a term's leader. */
export interface VolumeFollowers {
  id: string;
  epoch: bigint;
  /** Nodes to which the leader copies its log, the best ones first. */
  candidates: string[];
  /** The list that a transaction has just written; undefined: none since the last call. */
  listed: string[] | undefined;
}

/** Where a node's log of a volume ends; the greatest epoch, and in it the greatest record, is the longest. */
export interface VolumeLogPosition {
  node: string;
  epoch: bigint;
  /** 0: the log is empty. */
  record: bigint;
}

export interface VolumeFollower {
  node: string;
  /** It may lead after the leader. */
  listed: boolean;
  /** Record up to which it has the log; `lag` others are missing, the first one for `lagSeconds`. */
  confirmed: bigint;
  lag: bigint;
  lagSeconds: number;
  /** Why its log does not grow now; empty: it does. */
  error: string;
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
  /** Of the leader; and how often, since its term began, it took one off the list because it was late. */
  followers: VolumeFollower[];
  followersDropped: bigint;
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
  /** Answers nothing more as the leader; waits for what is under way, and some seconds for its followers. */
  resignVolume(id: string): Promise<void>;
  /** Nothing when it is of another term. */
  setVolumeFollowers(followers: VolumeFollowers): void;
  /**
   * The list of followers that the store should have: as soon as it is not `known`, or after the timeout. Until
   * `setVolumeFollowers` says that a transaction has written it, the engine counts with both lists. Throws
   * `Unavailable` when this agent leads in another epoch, or not.
   */
  volumeFollowersWanted(id: string, epoch: bigint, known: string[], timeoutMs: bigint): Promise<string[]>;
  /** Where the logs of these nodes end that answer in time. They take nothing of epochs below `epoch` from then on. */
  volumeLogPositions(id: string, epoch: bigint, nodes: string[], timeoutMs: bigint): Promise<VolumeLogPosition[]>;
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
  /** The content of each file now, in their order; undefined for one that is gone or empty. */
  volumeContents(id: string, inodes: readonly bigint[]): Promise<(PublishedContent | undefined)[]>;
  volumeStatistics(): Promise<VolumeStatistics[]>;
}
