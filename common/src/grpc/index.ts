/** Clients of gRPC for addresses that may answer nothing at all. Loads gRPC. */
export { connectedState } from './connected_state.ts';
export { ReconnectingClient } from './reconnecting_client.ts';
