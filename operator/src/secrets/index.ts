/** Credentials of origins: Secrets that the operator may read by name, and only where it was allowed. */
export { type CredentialsChoice, credentialsOf } from './credentials.ts';
export { grantCommand, type SecretGrant } from './grant.ts';
export { SecretReader, type SecretReaderOptions, type SecretReading } from './secret_reader.ts';
