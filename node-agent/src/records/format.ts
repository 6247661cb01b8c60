import { HearthError } from '@hearth/common';
import { z } from 'zod';

/**
 * Version header of a record: `format` grows when a field changes its meaning; `needs` names features without which a
 * reader would misunderstand the record. New fields need neither: readers ignore unknown fields and keep them when they
 * change the record. A release reads its own version and the previous one.
 */
const header = z.object({
  /** Releases older than the header wrote version 1. */
  format: z.int().min(1).default(1),
  needs: z.array(z.string()).default([]),
});

export const recordFormat = 1;
/** The features in `needs` that this release understands. */
const understood: ReadonlySet<string> = new Set();

/** Throws `Unsupported` when the record at `key` was written by a release that this one cannot read. */
export function checkFormat(key: string, record: unknown): void {
  const { data } = header.safeParse(record);
  if (data === undefined) return; // whatever it is, its schema says so
  const lacking = data.needs.filter((feature) => !understood.has(feature));
  if (data.format <= recordFormat && lacking.length === 0) return;
  const what = lacking.length === 0 ? `its format is ${data.format}` : `it needs ${lacking.join(', ')}`;
  throw new HearthError(
    'Unsupported',
    `the record ${key} was written by a later release (${what}, this agent reads format ${recordFormat}); upgrade this agent`,
  );
}

/** Fields of a record that a schema with these names lacks, as written by a later release. */
export function unknownFields(record: unknown, known: readonly string[]): Record<string, unknown> {
  if (typeof record !== 'object' || record === null) return {};
  const names = new Set([...known, 'format']);
  return Object.fromEntries(Object.entries(record).filter(([name]) => !names.has(name)));
}
