export { EtcdStore } from './etcd_store.ts';
export { openStore } from './open_store.ts';
export { SqliteStore, type SqliteStoreOptions } from './sqlite_store.ts';
export * from './store.ts';
