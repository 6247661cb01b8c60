/** Files that stay in the cache, by owner. */
export { Pins } from './pins.ts';
export { checkOwner, type PinRecord } from './record.ts';
