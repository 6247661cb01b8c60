export { ControllerService } from './controller_service.ts';
export { VolumeRegistry } from './volume_registry.ts';
