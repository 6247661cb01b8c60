/** Addresses that do not behave, a client for sockets that do, and control APIs that a test scripts. */
export { BlackHole } from './black_hole.ts';
export { callSocket } from './call_socket.ts';
export { type Listener, scriptedControl } from './scripted_control.ts';
export { SilentListener } from './silent_listener.ts';
