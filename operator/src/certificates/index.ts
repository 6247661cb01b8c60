/** Authorities and certificates, of StorageClusters and of the webhook. */
export * from './authority.ts';
export * from './cluster_certificates.ts';
