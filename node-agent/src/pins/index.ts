/** Files kept in the cache, by owner. */
export { Pins } from './pins.ts';
export { checkOwner } from './record.ts';
