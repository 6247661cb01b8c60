export { AccessRenewal } from './access_renewal.ts';
export { type AccessPublication, AccessRecords, ClientAccess } from './client_access.ts';
