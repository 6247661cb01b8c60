export { Membership } from './membership.ts';
export { nodePrefix } from './record.ts';
