export { type Peers, TlsPeers } from './peers.ts';
