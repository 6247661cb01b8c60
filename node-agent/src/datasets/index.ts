/** Datasets: their revisions, manifests, files and locations. */
export { ClientNames } from './client_names.ts';
export { chooseFiles, entryPages, findFile } from './files.ts';
export { ManifestKeeper } from './keeper.ts';
export type { ListingProgress } from './listing.ts';
export { Locations } from './locations.ts';
export { LostManifests } from './lost_manifests.ts';
export { OriginCheck } from './origin_check.ts';
export { checkName, type DatasetRecord, type ResolvingRecord } from './record.ts';
export { type OpenOrigin, Resolution, type Resolved } from './resolution.ts';
export { DatasetTables } from './table.ts';
