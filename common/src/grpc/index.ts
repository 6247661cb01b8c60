/** Clients of gRPC for addresses that may answer nothing at all, and servers on Unix sockets. Loads gRPC. */
export { connectedState } from './connected_state.ts';
export { ReconnectingClient } from './reconnecting_client.ts';
export { bind, bindSocket } from './server_socket.ts';
