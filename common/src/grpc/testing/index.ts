/** Addresses that do not behave. */
export { BlackHole } from './black_hole.ts';
export { SilentListener } from './silent_listener.ts';
