import { createHash, createHmac } from 'node:crypto';
import { HearthError } from '@hearth/common';

/** The rights of a client of libgd2fs, as in native/wire/capability.h. */
export interface Capability {
  cluster: string;
  /** The only node whose agent accepts the token; '': any. */
  node: string;
  /** Milliseconds since the epoch. */
  expiresAt: number;
  rights: readonly CapabilityRight[];
  /** Names; `*` means all datasets. Volumes are `volume:NAME`, all of them `volume:*`. */
  datasets: readonly string[];
  /** Whose limits at agents its clients share; absent: those of all tokens that grant the same. */
  pod?: { namespace: string; uid: string };
  /** The only nodes whose agents accept the token, that of its programs first; absent: see `node`. */
  nodes?: readonly string[];
}

/** `advise` is for one node, `advise-cluster` for all; `write` and `delete` are for files of volumes. */
export type CapabilityRight = (typeof capabilityRights)[number];
export const capabilityRights = ['read', 'advise', 'advise-cluster', 'write', 'delete'] as const;

const rightBits: Record<CapabilityRight, number> = { read: 1, advise: 2, 'advise-cluster': 4, write: 8, delete: 16 };
const maxTokenClaims = 4096;
export const maxTokenLifeMs = 30 * 24 * 60 * 60 * 1000;
const tokenPattern = /^hearth-token-1\.([\w-]+)\.[\w-]+$/;

/**
 * The text of a token, which is as sensitive as a password until it expires. `secret`: the cluster secret, which the
 * token does not reveal.
 */
export function makeToken(capability: Capability, secret: Uint8Array): string {
  const claims = claimsOf(capability);
  const key = createHmac('sha256', secret).update('hearth capability 1\0').update(claims).digest();
  return `hearth-token-1.${claims.toString('base64url')}.${key.toString('base64url')}`;
}

/** By which a token is revoked; reveals nothing of its key. Throws `InvalidArgument` unless `token` is a token's text. */
export function tokenId(token: string): string {
  const claims = tokenPattern.exec(token.trim())?.[1];
  if (claims === undefined) throw new HearthError('InvalidArgument', 'this is not a token; hearth token creates one');
  return createHash('sha256').update(Buffer.from(claims, 'base64url')).digest('hex');
}

function claimsOf({ cluster, node, expiresAt, rights, datasets, pod, nodes = [] }: Capability): Buffer {
  const numbers = Buffer.alloc(14);
  numbers.writeBigUInt64LE(BigInt(expiresAt), 0);
  numbers.writeUInt32LE(
    rights.reduce((bits, right) => bits | rightBits[right], 0),
    8,
  );
  numbers.writeUInt16LE(datasets.length, 12);
  const fields = pod === undefined ? [] : [field(1, text(pod.namespace)), field(2, text(pod.uid))];
  if (nodes.length > 0) fields.push(field(3, Buffer.concat([u16(nodes.length), ...nodes.map(text)])));
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
  return Buffer.concat([u16(bytes.length), bytes]);
}

function u16(value: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16LE(value);
  return bytes;
}
