export {
  checkVolume,
  isOfAnother,
  RecordFiles,
  reconcileRecords,
  recordId,
  type StoredRecord,
  takeBack,
} from './record_files.ts';
