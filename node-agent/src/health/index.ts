export { AgentMetrics } from './metrics.ts';
export { HealthServer, type HealthSource } from './server.ts';
