export {
  checkVolume,
  isOfAnother,
  RecordFiles,
  reconcileRecords,
  recordId,
  rollBack,
  type StoredRecord,
} from './record_files.ts';
