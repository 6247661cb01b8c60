/** Unresponsive addresses, a client for Unix sockets, and control APIs scripted by a test. */
export { BlackHole } from './black_hole.ts';
export { callSocket } from './call_socket.ts';
export { type Listener, scriptedControl } from './scripted_control.ts';
export { SilentListener } from './silent_listener.ts';
