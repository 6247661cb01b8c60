export { chooseFiles, entryPages, findFile } from './files.ts';
export { PathFilter } from './glob.ts';
export { ManifestKeeper } from './keeper.ts';
export { Locations } from './locations.ts';
export { checkName, type DatasetRecord, type ResolvingRecord } from './record.ts';
export { Removal } from './removal.ts';
export { type ListingProgress, type OpenOrigin, Resolution, type Resolved } from './resolution.ts';
export { DatasetTables } from './table.ts';
