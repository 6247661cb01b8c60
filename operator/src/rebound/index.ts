/** Reports to pods whose mounts died and were bound again that they must be restarted. */
export { runReboundController } from './rebound_pods.ts';
