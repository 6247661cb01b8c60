export { ControllerService, ControlRegistry, type VolumeRecord, type VolumeRegistry } from './controller/index.ts';
export type { Volume } from './generated/csi/csi.ts';
export { VolumeCapability_AccessMode_Mode as AccessMode } from './generated/csi/csi.ts';
export { driverName } from './names.ts';
export { registeredName } from './volume_request.ts';
