export { CallHandlers } from './call_handlers.ts';
export { addCsiServices, Identity } from './csi_services.ts';
export { KubeletRegistration } from './kubelet_registration.ts';
export { SocketServer } from './socket_server.ts';
