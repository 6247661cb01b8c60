export { nothingDone } from './execute.ts';
export type { AnswerRecord } from './record.ts';
export { type Asked, Requests } from './requests.ts';
