export { Pins } from './pins.ts';
export { checkOwner, type PinRecord } from './record.ts';
