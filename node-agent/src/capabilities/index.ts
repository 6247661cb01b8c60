export { Capabilities, type ProbeMachine } from './capabilities.ts';
export { machineProbe } from './machine_probe.ts';
export { type Capability, type PodReference, readCapabilities } from './read.ts';
