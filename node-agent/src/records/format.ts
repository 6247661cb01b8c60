import { HearthError } from '@hearth/common';
import { z } from 'zod';

/**
 * The form of a record, beside its fields: `format`, a version that grows when a field changes its meaning, and
 * `needs`, names of features without which a reader would misunderstand it. New fields need neither: readers ignore
 * unknown fields, and keep them when they change the record. A release reads its own version and the one before it.
 */
const header = z.object({
  /** Releases before there was one wrote what is version 1 now. */
  format: z.int().min(1).default(1),
  needs: z.array(z.string()).default([]),
});

export const recordFormat = 1;
/** Of `needs`, those that this release understands. */
const understood: ReadonlySet<string> = new Set();

/** Throws `Unsupported` when the record at `key` was written by a release that this one cannot follow. */
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

/** Fields of a record that a schema with these names does not know: of a later release, or none. */
export function unknownFields(record: unknown, known: readonly string[]): Record<string, unknown> {
  if (typeof record !== 'object' || record === null) return {};
  const names = new Set([...known, 'format']);
  return Object.fromEntries(Object.entries(record).filter(([name]) => !names.has(name)));
}
