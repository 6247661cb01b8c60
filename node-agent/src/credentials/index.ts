export { CredentialCache } from './credential_cache.ts';
export { isEmpty, ofFirst, ofMirror, originCredentials } from './own.ts';
