import { readFileSync } from 'node:fs';
import { findPackageJSON } from 'node:module';

export { driverName } from '@hearth/common/names';

/** Volume attributes and StorageClass parameters that identify the data of a volume. */
export const attributeNames = {
  cluster: 'cluster',
  namespace: 'datasetNamespace',
  dataset: 'dataset',
  revision: 'revision',
} as const;

/** Of PersistentVolumes that are writable volumes; no inline volume has them. */
export const volumeNames = { cluster: 'cluster', volume: 'volume' } as const;

export const accessNames = {
  access: 'clientAccess',
  cluster: 'cluster',
  datasets: 'datasets',
  rights: 'rights',
} as const;

export function driverVersion(): string {
  return JSON.parse(readFileSync(findPackageJSON(import.meta.url) ?? '', 'utf8')).version;
}
