export { ControlBook } from './control_book.ts';
export { ControllerService } from './controller_service.ts';
export type { CatalogEntry, DatasetCatalog, VolumeBook, VolumeRecord } from './volume_book.ts';
export { volumeIdOf } from './volume_name.ts';
