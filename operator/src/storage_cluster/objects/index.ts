/** The objects that a StorageCluster is made of, each built from the spec alone. */
export { desired } from './desired.ts';
export type { DesiredObject } from './desired_object.ts';
