/** Of whole files in memory, which applications read from there. */
export interface MemoryFilesStatistics {
  budgetBytes: bigint;
  /** Of files that are whole or being filled, and among them bytes in pages of 2 MiB or more. */
  usedBytes: bigint;
  hugeBytes: bigint;
  /** Whole ones. */
  files: bigint;
  /** Since the start: files that went for others, those that stayed because a program had them open or mapped, and those for which there was no room. */
  evictedFiles: bigint;
  evictedBytes: bigint;
  heldFiles: bigint;
  refusedFiles: bigint;
  /** Why there are none; '' when there are. */
  off: string;
  /** Why the last file that failed could not be brought to memory; '' when none failed. */
  failure: string;
  /** Why the kernel gives them no huge pages by itself; '' when it does. */
  noHugePages: string;
}
