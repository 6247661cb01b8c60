export { RecordFiles, reconcileRecords, recordId, type StoredRecord } from './record_files.ts';
