export { CredentialBook } from './book.ts';
export { isEmpty, originCredentials } from './own.ts';
