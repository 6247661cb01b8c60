/** A serving agent, and the reduced form of an agent that does not serve. */
export { Agent } from './agent.ts';
export { type ClusterSight, sightOf } from './cluster_sight.ts';
export { StandbyAgent } from './standby_agent.ts';
