export { type IdentityOptions, IdentityService } from './identity_service.ts';
