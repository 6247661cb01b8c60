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

/** A shard does not get on with less of the arena (`Engine::openArena`), and there are at most eight of themselves. */
const minOfShard = 32n * MiB;
const maxShards = 8;

/** The memory that the scheduler keeps free for an agent: an idle process. Its arena is its holder's. */
export const requestedMemory = idle;

/** The memory for chunks of an agent at most, bytes, whole pages of it: its holder takes it, keeps it and is charged. */
export function arenaBytes({ engine }: NodeGroup): bigint {
  const least = minOfShard * BigInt(engine.shards === 0 ? maxShards : engine.shards);
  const asked = parseQuantity(engine.buffer) ?? 0n;
  const page = engine.hugePages === '1Gi' ? GiB : 2n * MiB;
  return (((asked > least ? asked : least) + page - 1n) / page) * page;
}

/**
 * An agent's limit, bytes. No intended work comes near it: it has the kernel end a leaking agent, which starts again,
 * and not pods of the node, all of which come before the agent by priority. Page cache counts towards it, but is given
 * back before anything is ended (e2e/src/memory_limit.test.ts).
 */
export function memoryLimit(group: NodeGroup, origins: StorageCluster['spec']['origins']): bigint {
  const index = group.cacheDirectories.reduce((sum, { budget }) => sum + budgetOf(budget) / cachedPerByte, 0n);
  const allowed = BigInt(origins.maxEntries) * listedEntry;
  // As much again as the arena: what is in transfer is also in sockets. It is also room for an arena that the agent has
  // to take by itself, as long as its holder is one of a release that takes none.
  return roundedUp(idle + (allowed > listing ? allowed : listing) + arenaBytes(group) + index);
}

function budgetOf(text: string): bigint {
  const share = parseShare(text);
  return share !== undefined && 'bytes' in share ? BigInt(share.bytes) : unknownDisk;
}

const roundedUp = (bytes: bigint) => ((bytes + 64n * MiB - 1n) / (64n * MiB)) * 64n * MiB;

export const inMebibytes = (bytes: bigint) => `${bytes / MiB}Mi`;
