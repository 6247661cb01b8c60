/** Addresses that do not behave, and a client for sockets that do. */
export { BlackHole } from './black_hole.ts';
export { callSocket } from './call_socket.ts';
export { SilentListener } from './silent_listener.ts';
