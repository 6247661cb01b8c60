import { HearthError } from '@hearth/common';
import type { DatasetTables } from '../datasets/index.ts';

/** `manifest`: '' for the current revision. `mapsIds`: a container runtime maps the ids of the mount. */
export interface Wanted {
  dataset: string;
  manifest: string;
  mapsIds: boolean;
}

export interface Published {
  path: string;
  manifest: string;
  dataPath: string;
  reason: string;
  bytes: bigint;
  files: number;
}

/**
 * The manifest that a volume shows: the current revision for '', else `manifest`, which must be a current or former
 * revision of the dataset. Errors state the reason alone, because the publisher knows the next step: the listing's
 * error, `Unavailable` while the dataset is being listed, `NotFound`, `InvalidArgument`.
 */
export async function publishedRevision(tables: DatasetTables, name: string, manifest: string): Promise<string> {
  if (manifest === '') return await presentRevision(tables, name);
  if (!/^[0-9a-f]{64}$/.test(manifest)) {
    throw new HearthError('InvalidArgument', 'a revision is named by the 64 hexadecimal digits of its manifest');
  }
  await presentRevision(tables, name);
  if (await tables.hasRevision(name, manifest)) return manifest;
  throw new HearthError(
    'NotFound',
    `dataset ${name} no longer has a revision ${manifest}; publish the current revision, or add the dataset in that state again`,
  );
}

async function presentRevision(tables: DatasetTables, name: string): Promise<string> {
  const row = await tables.datasets.read(name);
  if (row === undefined) {
    if ((await tables.resolving.read(name)) === undefined) {
      throw new HearthError('NotFound', 'agents do not know the dataset (yet)');
    }
    throw new HearthError('Unavailable', 'the origin is still being listed');
  }
  const { state, manifest, errorCode, message } = row.value;
  if (state === 'Failed' && manifest === '') throw new HearthError(errorCode ?? 'Unavailable', message);
  return manifest;
}
