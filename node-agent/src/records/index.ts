/** Records in the store: tables, mirrors, sessions and elections. */
export { Election } from './election.ts';
export { errorCodeSchema, unsigned } from './fields.ts';
export { type Change, Mirror } from './mirror.ts';
export { Session } from './session.ts';
export { RecordTable, type Row } from './table.ts';
export { TableWatch } from './table_watch.ts';
export { abortError, unlessAborted } from './wait.ts';
