import type { ManifestRow, Origin } from '../origin.ts';

/** All rows of an origin, by path. */
export async function listAll(origin: Origin, signal = AbortSignal.timeout(300_000)): Promise<ManifestRow[]> {
  const rows: ManifestRow[] = [];
  for await (const page of origin.list(signal)) rows.push(...page);
  return rows.sort((a, b) => (a.path < b.path ? -1 : 1));
}
