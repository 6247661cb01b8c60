import { z } from 'zod';
import { unsigned } from '../records/index.ts';

/** Ids of inodes and sessions have 24 bits for the epoch (native/namespace). */
export const maxEpoch = 2 ** 24 - 1;

const id = z.string().regex(/^[0-9a-f]{32}$/);

/** `writable/volumes/<name>`: a tree of files that all nodes share. */
export const writableVolumeSchema = z.object({
  name: z.string(),
  id,
  /** The store's id when the volume was created. */
  store: id,
  kind: z.literal('scratch'),
  /** Of published files; 0: no limit. */
  maxBytes: unsigned,
  maxFiles: unsigned,
  /** Every operation of a mount ends by then. */
  deadlineMs: z.int().positive(),
  /** Milliseconds since the epoch. */
  createdAt: z.number(),
  /** Of the last term, 0 before the first one. A term begins with the transaction that counts it. */
  epoch: z.int().min(0).max(maxEpoch),
  /** The cache directory that has the log of names, and the node on which it was seen last. */
  logInstallation: z.string().min(1),
  logNode: z.string(),
  /** Nodes with a copy of the log that lacks a second of changes at most: their agents may lead, too. */
  followers: z.array(z.string()).default([]),
});
export type WritableVolumeRecord = z.output<typeof writableVolumeSchema>;

/** `writable/leaders/<id>`: the agent that leads a volume now, under its lease. */
export const volumeLeaderSchema = z.object({
  id,
  node: z.string(),
  installation: z.string(),
  epoch: z.int(),
});
export type VolumeLeaderRecord = z.output<typeof volumeLeaderSchema>;

/** `writable/deleted/<id>`: a volume whose log and chunks every agent removes. A record that is merely absent was lost. */
export const deletedVolumeSchema = z.object({ id, name: z.string(), deletedAt: z.number() });

/** `writable/store/id`: 128 random bits of this store. */
export const storeIdSchema = z.object({ id });
