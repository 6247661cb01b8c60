/** The objects of a StorageCluster, each built from the spec alone. */
export { desired } from './desired.ts';
export type { DesiredObject } from './desired_object.ts';
