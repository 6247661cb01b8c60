export { type Capability, type CapabilityRight, makeToken } from './token.ts';
