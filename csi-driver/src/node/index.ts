export { NodeService, type NodeServiceOptions } from './node_service.ts';
export { type Publication, Publications, type PublicationsParts } from './publications.ts';
export { Rebinding } from './rebinding.ts';
