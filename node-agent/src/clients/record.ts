import { HearthError } from '@hearth/common';
import { z } from 'zod';

/** `revocations/<kind>/<name>`: tokens of clients that agents refuse before they expire. */
export const revocationSchema = z.object({
  kind: z.enum(['token', 'pod', 'namespace']),
  /** The id of a token, `NAMESPACE/UID` of a pod, or a namespace. */
  name: z.string(),
  /** Milliseconds since the epoch. */
  revokedAt: z.number(),
});
export type RevocationRecord = z.output<typeof revocationSchema>;
export type RevocationKind = RevocationRecord['kind'];

const namespacePattern = '[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?';
const patterns: Record<RevocationKind, { pattern: RegExp; allowed: string }> = {
  token: { pattern: /^[0-9a-f]{64}$/, allowed: 'the 64 hexadecimal digits of the id of a token' },
  pod: { pattern: new RegExp(`^${namespacePattern}/[A-Za-z0-9-]{1,63}$`), allowed: 'NAMESPACE/UID' },
  namespace: { pattern: new RegExp(`^${namespacePattern}$`), allowed: 'the name of a namespace' },
};

export function revocationId({ kind, name }: Pick<RevocationRecord, 'kind' | 'name'>): string {
  return `${kind}/${name}`;
}

/** Throws `InvalidArgument`. */
export function checkRevoked(kind: RevocationKind, name: string): void {
  const { pattern, allowed } = patterns[kind];
  if (pattern.test(name)) return;
  throw new HearthError('InvalidArgument', `the name of a revoked ${kind} must be ${allowed}`);
}
