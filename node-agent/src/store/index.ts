export { EtcdStore } from './etcd-store.ts';
export { openStore } from './open-store.ts';
export { SqliteStore, type SqliteStoreOptions } from './sqlite-store.ts';
export * from './store.ts';
