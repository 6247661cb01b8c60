export { LostMounts } from './lost_mounts.ts';
export { NodeService } from './node_service.ts';
export { PodUsers } from './pod_users.ts';
export { Publications } from './publications.ts';
export { PublishedRecords } from './published_records.ts';
export { Rebinding } from './rebinding.ts';
export { Topology } from './topology.ts';
