export { Election } from './election.ts';
export { type Change, Mirror } from './mirror.ts';
export { Session } from './session.ts';
export { RecordTable, type Row } from './table.ts';
export { abortError, pause, unlessAborted } from './wait.ts';
