export { ControllerService } from './controller_service.ts';
