export { AgentPeers, type Peers } from './peers.ts';
