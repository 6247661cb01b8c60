export { freePort, freePorts } from './free_port.ts';
