/** Tokens of clients of libgd2fs: creating and revoking them. */
export type { RevocationKind, RevocationRecord } from './record.ts';
export { Revocations } from './revocations.ts';
export { type Capability, type CapabilityRight, capabilityRights, makeToken, tokenId } from './token.ts';
