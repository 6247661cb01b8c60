export { AgentMetrics } from './metrics.ts';
export { HealthServer } from './server.ts';
