export { RecordFiles, type RecordForm, reconcileRecords, recordId, type StoredRecord } from './record_files.ts';
