export { CallHandlers, type CallHandlersOptions } from './call_handlers.ts';
export { addController, addIdentity, addNode } from './csi_services.ts';
export { SocketServer, type SocketServerOptions } from './socket_server.ts';
