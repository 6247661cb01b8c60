/** gRPC clients for servers that may not respond, and servers on Unix sockets. Importing this module loads gRPC. */
export { connectedState } from './connected_state.ts';
export { ReconnectingClient } from './reconnecting_client.ts';
export { bind, bindSocket } from './server_socket.ts';
