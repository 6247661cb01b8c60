/** An agent that serves, and what there is of one that does not. */
export { Agent } from './agent.ts';
export { type ClusterSight, sightOf } from './cluster_sight.ts';
export { StandbyAgent } from './standby_agent.ts';
