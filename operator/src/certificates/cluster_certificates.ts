import { randomBytes } from 'node:crypto';
import type { SecretTexts } from '../kubernetes/index.ts';
import {
  authorityFault,
  type CertificateAndKey,
  createAuthority,
  expiryTime,
  issueLeaf,
  type LeafRequest,
  leafFault,
  renewalTime,
  unexpired,
} from './authority.ts';

export type SecretRole = 'ca' | 'agent' | 'operator' | 'etcd' | 'secret';

export interface PlannedSecret {
  role: SecretRole;
  type: 'Opaque' | 'kubernetes.io/tls';
  texts: SecretTexts;
  reason: string;
}

export interface CertificatePlan {
  /** Secrets to write before their users, the authority first. */
  write: PlannedSecret[];
  /** The contents of every role after all writes. */
  texts: Record<SecretRole, SecretTexts>;
  renewAt: Date;
  expiresAt: Date;
}

export interface CertificateSubject {
  cluster: string;
  /** DNS names of the etcd members, wildcards included. */
  peers: readonly string[];
}

export const agentName = (cluster: string) => `agent.${cluster}.hearth`;
export const operatorName = (cluster: string) => `operator.${cluster}.hearth`;
export const etcdName = (cluster: string) => `etcd.${cluster}.hearth`;

const leafRoles = ['agent', 'operator', 'etcd'] as const;

/** Clients of etcd expect one name; its members identify one another by `peers`. */
function leafRequest(role: (typeof leafRoles)[number], { cluster, peers }: CertificateSubject): LeafRequest {
  switch (role) {
    case 'agent':
      return { commonName: agentName(cluster), names: [agentName(cluster)], server: true };
    case 'operator':
      return { commonName: operatorName(cluster), names: [operatorName(cluster)], server: false };
    case 'etcd':
      return { commonName: etcdName(cluster), names: [etcdName(cluster), ...peers], server: true };
  }
}

/** Replaces missing, damaged, expiring or foreign certificates. A former authority stays trusted until it expires. */
export async function planCertificates(
  subject: CertificateSubject,
  observed: Partial<Record<SecretRole, SecretTexts>>,
  now: Date,
): Promise<CertificatePlan> {
  const write: PlannedSecret[] = [];
  const texts: Partial<Record<SecretRole, SecretTexts>> = { ...observed };
  const put = (secret: PlannedSecret) => {
    write.push(secret);
    texts[secret.role] = secret.texts;
  };

  const before = observed.ca?.['ca.crt'] ?? '';
  let bundle = unexpired(before, now);
  let authority: CertificateAndKey = { certificate: bundle[0] ?? '', key: observed.ca?.['ca.key'] ?? '' };
  const fault = authorityFault(authority, now);
  if (fault !== undefined) {
    authority = await createAuthority(`Hearth cluster ${subject.cluster}`, now);
    bundle = [authority.certificate, ...bundle];
  }
  const authorities = bundle.join('');
  if (fault !== undefined || authorities !== before) {
    const reason = fault ?? 'a former authority in it has expired';
    put({ role: 'ca', type: 'Opaque', texts: { 'ca.crt': authorities, 'ca.key': authority.key }, reason });
  }

  for (const role of leafRoles) {
    const request = leafRequest(role, subject);
    const had = observed[role];
    let leaf: CertificateAndKey = { certificate: had?.['tls.crt'] ?? '', key: had?.['tls.key'] ?? '' };
    let reason = leafFault(leaf, authority, request, now);
    if (reason !== undefined) leaf = await issueLeaf(authority, request, now);
    else if (had?.['ca.crt'] !== authorities) reason = 'the authorities have changed';
    if (reason === undefined) continue;
    const made = { 'tls.crt': leaf.certificate, 'tls.key': leaf.key, 'ca.crt': authorities };
    put({ role, type: 'kubernetes.io/tls', texts: made, reason });
  }

  if ((observed.secret?.secret ?? '').trim().length < 16) {
    const secret = randomBytes(32).toString('base64');
    put({ role: 'secret', type: 'Opaque', texts: { secret }, reason: 'there was none' });
  }

  const complete = texts as Record<SecretRole, SecretTexts>;
  const certificates = [authority.certificate, ...leafRoles.map((role) => complete[role]['tls.crt'] ?? '')];
  return {
    write,
    texts: complete,
    renewAt: earliest(certificates.map(renewalTime), now),
    expiresAt: earliest(certificates.map(expiryTime), now),
  };
}

function earliest(times: (Date | undefined)[], now: Date): Date {
  return new Date(Math.min(...times.map((time) => (time ?? now).getTime())));
}
