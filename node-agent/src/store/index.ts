/** The shared store of a cluster: etcd, or SQLite of one machine. */
export { EtcdStore } from './etcd_store.ts';
export { openStore } from './open_store.ts';
export { SqliteStore, type SqliteStoreOptions } from './sqlite_store.ts';
export type { CallOptions, Compare, KeyValue, LeaseId, Operation, Store, StoreEvent } from './store.ts';
