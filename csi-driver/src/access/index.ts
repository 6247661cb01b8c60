export { AccessRecords } from './access_records.ts';
export { AccessRenewal } from './access_renewal.ts';
export { type AccessPublication, ClientAccess } from './client_access.ts';
