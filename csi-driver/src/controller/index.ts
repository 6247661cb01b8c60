export { ControllerService } from './controller_service.ts';
export {
  type CatalogEntry,
  ControlRegistry,
  type DatasetCatalog,
  type VolumeRecord,
  type VolumeRegistry,
} from './volume_registry.ts';
