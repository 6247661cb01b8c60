export { Membership, type MembershipOptions, type Standing } from './membership.ts';
export { type NodeRecord, nodePrefix } from './record.ts';
