export { ControllerService } from './controller_service.ts';
export {
  type CatalogEntry,
  ControlBook,
  type DatasetCatalog,
  type VolumeBook,
  type VolumeRecord,
} from './volume_book.ts';
