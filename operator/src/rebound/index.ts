/** Reports to pods whose mounts died and were bound again that they must be restarted. */
export { type ReboundControllerOptions, runReboundController } from './rebound_pods.ts';
