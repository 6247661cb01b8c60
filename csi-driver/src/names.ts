export { driverName } from '@hearth/common/names';

/** What a volume is of: keys of volume attributes and of StorageClass parameters. */
export const attributeNames = {
  cluster: 'cluster',
  namespace: 'datasetNamespace',
  dataset: 'dataset',
  revision: 'revision',
} as const;
