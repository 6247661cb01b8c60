/** A dataset that needs no origin. */
export { sumsName } from './make.ts';
