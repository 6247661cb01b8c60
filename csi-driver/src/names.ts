/** Name of the driver, of its CSIDriver object and of the provisioner of StorageClasses. */
export const driverName = 'csi.hearth.storage';

/** What a volume is of: keys of volume attributes and of StorageClass parameters. */
export const attributeNames = {
  cluster: 'cluster',
  namespace: 'datasetNamespace',
  dataset: 'dataset',
  revision: 'revision',
} as const;
