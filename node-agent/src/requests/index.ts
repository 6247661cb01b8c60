export type { AnswerRecord } from './record.ts';
export { type Asked, Requests } from './requests.ts';
