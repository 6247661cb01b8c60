import { createHmac } from 'node:crypto';
import { HearthError } from '@hearth/common';

/** The rights of a client of libgd2fs, as in native/wire/capability.h. */
export interface Capability {
  cluster: string;
  /** The only node whose agent accepts the token; '': any. */
  node: string;
  /** Milliseconds since the epoch. */
  expiresAt: number;
  rights: readonly CapabilityRight[];
  /** Names; `*` means all datasets. */
  datasets: readonly string[];
  /** Whose limits at agents its clients share; absent: those of all tokens that grant the same. */
  pod?: { namespace: string; uid: string };
}

export type CapabilityRight = 'read' | 'advise';

const rightBits: Record<CapabilityRight, number> = { read: 1, advise: 2 };
const maxTokenClaims = 4096;

/**
 * The text of a token, which is as sensitive as a password until it expires. `secret`: the cluster secret, which the
 * token does not reveal.
 */
export function makeToken(capability: Capability, secret: Uint8Array): string {
  const claims = claimsOf(capability);
  const key = createHmac('sha256', secret).update('hearth capability 1\0').update(claims).digest();
  return `hearth-token-1.${claims.toString('base64url')}.${key.toString('base64url')}`;
}

function claimsOf({ cluster, node, expiresAt, rights, datasets, pod }: Capability): Buffer {
  const numbers = Buffer.alloc(14);
  numbers.writeBigUInt64LE(BigInt(expiresAt), 0);
  numbers.writeUInt32LE(
    rights.reduce((bits, right) => bits | rightBits[right], 0),
    8,
  );
  numbers.writeUInt16LE(datasets.length, 12);
  const fields = pod === undefined ? [] : [field(1, text(pod.namespace)), field(2, text(pod.uid))];
  const claims = Buffer.concat([Buffer.of(1), text(cluster), text(node), numbers, ...datasets.map(text), ...fields]);
  if (claims.length > maxTokenClaims)
    throw new HearthError('InvalidArgument', 'too many datasets for one token; create several tokens');
  return claims;
}

/** An optional field, as native/base/optional_fields.h has it. */
function field(tag: number, value: Buffer): Buffer {
  const head = Buffer.alloc(4);
  head.writeUInt16LE(tag, 0);
  head.writeUInt16LE(value.length, 2);
  return Buffer.concat([head, value]);
}

function text(value: string): Buffer {
  const bytes = Buffer.from(value);
  const length = Buffer.alloc(2);
  length.writeUInt16LE(bytes.length);
  return Buffer.concat([length, bytes]);
}
