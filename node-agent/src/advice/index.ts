/** WILLNEED and DONTNEED for nodes and for the whole cluster. */
export { Advice, type AdviceRequest, type DontNeedAnswer } from './advice.ts';
