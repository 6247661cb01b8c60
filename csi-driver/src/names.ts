import { readFileSync } from 'node:fs';
import { findPackageJSON } from 'node:module';

export { driverName } from '@hearth/common/names';

/** Keys of volume attributes and of StorageClass parameters, which together identify the data of a volume. */
export const attributeNames = {
  cluster: 'cluster',
  namespace: 'datasetNamespace',
  dataset: 'dataset',
  revision: 'revision',
} as const;

/** Attributes of an inline volume by which programs of a pod use libgd2fs. */
export const accessNames = {
  access: 'clientAccess',
  cluster: 'cluster',
  datasets: 'datasets',
  rights: 'rights',
} as const;

/** The version of this package, as its package.json says. */
export function driverVersion(): string {
  return JSON.parse(readFileSync(findPackageJSON(import.meta.url) ?? '', 'utf8')).version;
}
