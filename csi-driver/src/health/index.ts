export { HealthServer } from './health_server.ts';
