/** The shared store of a cluster: etcd, or SQLite on one machine. */
export { type BootClock, openBootClock } from './boot_clock.ts';
export { MeteredStore, type StoreTraffic } from './metered_store.ts';
export { openStore } from './open_store.ts';
export type { CallOptions, Compare, KeyValue, LeaseId, Operation, Store, StoreEvent } from './store.ts';
export { StoreGuard } from './store_guard.ts';
