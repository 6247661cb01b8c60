export type { ControlCalls } from './agent/index.ts';
export {
  type CatalogEntry,
  ControlBook,
  ControllerService,
  type DatasetCatalog,
  type VolumeBook,
  type VolumeRecord,
} from './controller/index.ts';
export { CsiError, type CsiStatus } from './csi_error.ts';
export type {
  CapacityRange,
  CreateVolumeRequest,
  CreateVolumeResponse,
  DeleteVolumeRequest,
  Volume,
  VolumeCapability,
} from './generated/csi/csi.ts';
export { VolumeCapability_AccessMode_Mode as AccessMode } from './generated/csi/csi.ts';
export { attributeNames, driverName } from './names.ts';
export { registeredName } from './volume_request.ts';
