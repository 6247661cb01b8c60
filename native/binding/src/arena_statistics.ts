/** Pages of memory for chunks, from the worst to the best. */
export type ArenaPages = 'small' | 'transparent' | 'huge-2Mi' | 'huge-1Gi';

/** Of the memory for chunks. */
export interface ArenaStatistics {
  bytes: bigint;
  /** Slots whose room is taken, and among them those in pages of 2 MiB or more. */
  committedBytes: bigint;
  hugeBytes: bigint;
  pages: ArenaPages;
  /** Why not better pages; '' when there are none. */
  reason: string;
  /** Why they come from whichever NUMA node has some; '' when each region's come from its own. */
  unplaced: string;
  /** Why the holder does not keep it for the next agent; '' when it does. */
  unkept: string;
  /** The holder has taken its room and is charged for it. */
  touchedByHolder: boolean;
  /** It is that of the agent before. */
  adopted: boolean;
  /** Why that of the agent before was not taken over; '' when there was none. */
  givenUp: string;
  /** Why it is smaller than `bufferBytes`; '' when it is not. */
  smaller: string;
  /** At the start: of chunks that were whole, and of slots that are not used. */
  foundBytes: bigint;
  quarantinedBytes: bigint;
  /** Of chunks that wait for no disk, and go when memory is needed; and files that went so since the start. */
  keptBytes: bigint;
  evictedFiles: bigint;
  /** Memory that went from one thread of the engine to another since the start. */
  movedBytes: bigint;
  /** Bytes that came from cache files into memory since the start: ahead of readers, and for peers. */
  loadedBytes: bigint;
}
