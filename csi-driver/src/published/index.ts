export { type PublishedRecord, publishedId, withRebinding } from './published_record.ts';
export { PublishedRecords, type StoredRecord } from './published_records.ts';
export { type Reconciled, reconcilePublished } from './reconcile.ts';
