import { z } from 'zod';

/** `usage/<dataset>`: use of a dataset in the cluster, written about once a minute. */
export const usageSchema = z.object({
  dataset: z.string(),
  /** Last use by any agent, milliseconds since the epoch. */
  usedAt: z.number(),
  /** Number of uses at that time, each decaying by half per half-life. */
  uses: z.number().default(0),
});
export type UsageRecord = z.output<typeof usageSchema>;

const halfLifeMs = 24 * 3_600_000;
/** Bounds the credit of a formerly popular dataset against one that was used once. */
const maxCreditMs = 3 * 24 * 3_600_000;

/** The decayed number of uses at a later time. */
export function usesAt({ uses, usedAt }: Pick<UsageRecord, 'uses' | 'usedAt'>, now: number): number {
  return uses * 2 ** (-Math.max(0, now - usedAt) / halfLifeMs);
}

/** The record after `count` more uses; 0: still in use. */
export function withUses(
  present: UsageRecord | undefined,
  { dataset, at, count }: { dataset: string; at: number; count: number },
): UsageRecord {
  if (present === undefined) return { dataset, usedAt: at, uses: count };
  const usedAt = Math.max(at, present.usedAt);
  return { dataset, usedAt, uses: usesAt(present, usedAt) + count };
}

/**
 * The time that orders datasets for eviction, earliest first. The order equals that of decayed uses at any moment: n
 * uses at t are worth one at t + half-life * log2(n), up to a bound.
 */
export function evictionTime({ uses, usedAt }: UsageRecord): number {
  return usedAt + Math.min(maxCreditMs, halfLifeMs * Math.log2(Math.max(1, uses)));
}
