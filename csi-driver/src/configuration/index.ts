export { type Configuration, readConfiguration, usage } from './configuration.ts';
