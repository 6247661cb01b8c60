/** Events for pods whose mounts died and were bound again, and that need a restart. */
export { runReboundController } from './rebound_pods.ts';
