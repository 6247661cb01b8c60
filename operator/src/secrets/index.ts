/** Credentials of origins, from Secrets that namespaces allow the operator to read. */
export * from './secret_reader.ts';
