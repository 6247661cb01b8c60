export { chooseFiles, entryPages, findFile } from './files.ts';
export { ManifestKeeper } from './keeper.ts';
export type { ListingLimits, ListingProgress } from './listing.ts';
export { Locations } from './locations.ts';
export { checkName, type DatasetRecord, type ResolvingRecord } from './record.ts';
export { Removal } from './removal.ts';
export { type OpenOrigin, Resolution, type Resolved } from './resolution.ts';
export { DatasetTables } from './table.ts';
