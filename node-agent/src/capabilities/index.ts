export { Capabilities, machineProbe, type ProbeMachine } from './capabilities.ts';
export type { Capability, PodReference } from './read.ts';
