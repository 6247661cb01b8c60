export { Capabilities, machineProbe, type ProbeMachine } from './capabilities.ts';
export { type Capability, type PodReference, readCapabilities } from './read.ts';
