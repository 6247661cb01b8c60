import { type NodeGroup, parseQuantity, parseShare, type StorageCluster } from '@hearth/common/resources';

const MiB = 1n << 20n;
const GiB = 1n << 30n;

/** An idle agent has 183 MiB (docs/performance.md). */
const idle = 256n * MiB;
/** A listing of ten million files takes 5 GiB, the largest temporary allocation. */
const listing = 6n * GiB;
/** Bytes of an entry during a listing: 360 and its path. */
const listedEntry = 640n;
/** Cached bytes for each byte of the index: a chunk of 4 MiB takes 300 bytes, and room for growth. */
const cachedPerByte = 8192n;
/** The assumed disk size for shares, since the operator does not know the disk. */
const unknownDisk = 8n * 1024n * GiB;

/** The minimal arena of a shard (`Engine::openArena`), and the default maximum of shards. */
const minOfShard = 40n * MiB;
const maxShards = 8;

/** The memory request of an agent. Its holder requests the arena. */
export const requestedMemory = idle;

/** The maximum size of an agent's arena, bytes, in whole pages. The holder owns and pays for the arena. */
export function arenaBytes({ engine }: NodeGroup): bigint {
  const minimum = minOfShard * BigInt(engine.shards === 0 ? maxShards : engine.shards);
  const requested = parseQuantity(engine.buffer) ?? 0n;
  const page = engine.hugePages === '1Gi' ? GiB : 2n * MiB;
  return (((requested > minimum ? requested : minimum) + page - 1n) / page) * page;
}

/** Room of the folder of whole files beside the files themselves (`MemoryFiles::kOverheadBytes`). */
const filesOverhead = 64n * MiB;

/** Memory for whole files on a node, bytes. The holder owns and pays for it. */
export function filesBytes({ engine }: NodeGroup): bigint {
  const files = parseQuantity(engine.memory) ?? 0n;
  return files === 0n ? 0n : roundedUp(files + filesOverhead);
}

/**
 * An agent's limit, bytes. Normal work stays far below: the limit has the kernel kill a leaking agent, which restarts,
 * instead of pods with a lower priority. The kernel reclaims page cache first (e2e/src/memory_limit.test.ts).
 */
export function memoryLimit(group: NodeGroup, origins: StorageCluster['spec']['origins']): bigint {
  const index = group.cacheDirectories.reduce((sum, { budget }) => sum + budgetOf(budget) / cachedPerByte, 0n);
  const allowed = BigInt(origins.maxEntries) * listedEntry;
  // Twice the arena, since sockets hold bytes in transfer. Also covers an arena of the agent's own, beside an older
  // holder that provides none.
  return roundedUp(idle + (allowed > listing ? allowed : listing) + arenaBytes(group) + index);
}

function budgetOf(text: string): bigint {
  const share = parseShare(text);
  return share !== undefined && 'bytes' in share ? BigInt(share.bytes) : unknownDisk;
}

const roundedUp = (bytes: bigint) => ((bytes + 64n * MiB - 1n) / (64n * MiB)) * 64n * MiB;

export const inMebibytes = (bytes: bigint) => `${bytes / MiB}Mi`;
