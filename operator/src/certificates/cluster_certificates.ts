import { randomBytes } from 'node:crypto';
import type { SecretTexts } from '../kubernetes/index.ts';
import { expiryTime, type LeafRequest, renewalTime, renewLeaf, renewTrust, trustedFrom } from './authority.ts';

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
  /** Authorities that peers trust, PEM; the first one signs, or is about to. */
  authorities: readonly string[];
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

/**
 * Replaces missing, damaged, ageing or foreign certificates. A new authority joins the bundles a day before it signs
 * leaves, and former ones stay in them until they expire, so peers trust one another in every step.
 */
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

  const held = { bundle: observed.ca?.['ca.crt'], key: observed.ca?.['ca.key'] };
  const trust = await renewTrust(`Hearth cluster ${subject.cluster}`, held, now);
  const authorities = trust.bundle.join('');
  if (trust.reason !== undefined) {
    const ca = { 'ca.crt': authorities, 'ca.key': trust.authority.key };
    put({ role: 'ca', type: 'Opaque', texts: ca, reason: trust.reason });
  }

  const overlapEnd = trustedFrom(trust.authority.certificate);
  const trusted = trust.bundle.length === 1 || now >= overlapEnd;
  for (const role of leafRoles) {
    const had = observed[role];
    const present = { certificate: had?.['tls.crt'] ?? '', key: had?.['tls.key'] ?? '' };
    const { leaf, reason: fault } = await renewLeaf(trust, present, leafRequest(role, subject), trusted, now);
    const reason = fault ?? (had?.['ca.crt'] === authorities ? undefined : 'the authorities have changed');
    if (reason === undefined) continue;
    const made = { 'tls.crt': leaf.certificate, 'tls.key': leaf.key, 'ca.crt': authorities };
    put({ role, type: 'kubernetes.io/tls', texts: made, reason });
  }

  if ((observed.secret?.secret ?? '').trim().length < 16) {
    const secret = randomBytes(32).toString('base64');
    put({ role: 'secret', type: 'Opaque', texts: { secret }, reason: 'there was none' });
  }

  const complete = texts as Record<SecretRole, SecretTexts>;
  const certificates = [trust.authority.certificate, ...leafRoles.map((role) => complete[role]['tls.crt'] ?? '')];
  return {
    write,
    texts: complete,
    authorities: trust.bundle,
    renewAt: trusted ? earliest(certificates.map(renewalTime), now) : overlapEnd,
    expiresAt: earliest(certificates.map(expiryTime), now),
  };
}

function earliest(times: (Date | undefined)[], now: Date): Date {
  return new Date(Math.min(...times.map((time) => (time ?? now).getTime())));
}
