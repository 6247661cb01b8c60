export { freePort, freePorts } from './free_port.ts';
export { until } from './until.ts';
