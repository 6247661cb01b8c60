import { type NodeGroup, parseQuantity, parseShare, type StorageCluster } from '@hearth/common/resources';

const MiB = 1n << 20n;
const GiB = 1n << 30n;

/** An idle agent has 183 MiB (docs/performance.md). */
const idle = 256n * MiB;
/** The largest thing that comes and goes: the list of ten million files takes 5 GiB while it is made, half for a million. */
const listing = 6n * GiB;
/** Of a file or folder while it is listed: 360 bytes, and its path. */
const listedEntry = 640n;
/** Of a chunk of 4 MiB, resident or not: 64 checksums of four bytes and its state, 300 bytes, and room for growth. */
const cachedPerByte = 8192n;
/** A share is of a disk that is not known here: as if it had this size. */
const unknownDisk = 8n * 1024n * GiB;

/** What the scheduler keeps free for an agent: buffers of chunks, and an idle process. */
export function requestedMemory(group: NodeGroup): bigint {
  return bufferOf(group) + idle;
}

/**
 * What an agent may have at most, bytes. No work that is meant comes near it: it is there so that an agent that leaks is
 * ended and started again, and not pods of the node, all of which come before it by priority. Page cache counts towards
 * it, but is given back before anything is ended (e2e/src/memory_limit.test.ts).
 */
export function memoryLimit(group: NodeGroup, origins: StorageCluster['spec']['origins']): bigint {
  const index = group.cacheDirectories.reduce((sum, { budget }) => sum + budgetOf(budget) / cachedPerByte, 0n);
  const allowed = BigInt(origins.maxEntries) * listedEntry;
  // Twice the buffers: what is in transfer is also in sockets, and pinned by the kernel for direct writes.
  return roundedUp(idle + (allowed > listing ? allowed : listing) + 2n * bufferOf(group) + index);
}

const bufferOf = (group: NodeGroup) => parseQuantity(group.engine.buffer) ?? 0n;

function budgetOf(text: string): bigint {
  const share = parseShare(text);
  return share !== undefined && 'bytes' in share ? BigInt(share.bytes) : unknownDisk;
}

const roundedUp = (bytes: bigint) => ((bytes + 64n * MiB - 1n) / (64n * MiB)) * 64n * MiB;

export const inMebibytes = (bytes: bigint) => `${bytes / MiB}Mi`;
