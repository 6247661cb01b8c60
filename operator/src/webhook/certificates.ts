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
} from '../certificates/index.ts';
import type { SecretTexts } from '../kubernetes/index.ts';

export interface WebhookCertificates {
  /** The contents of the Secret: ca.crt (the authority, then its predecessors), ca.key, tls.crt, tls.key. */
  texts: SecretTexts;
  /** Why the Secret must be written, as the end of a sentence; undefined: it is as it should be. */
  reason: string | undefined;
  /** When to look again, if nothing changes. */
  renewAt: Date;
}

/** How often an unfinished change of the authority is looked at, ms. */
const soonMs = 1_000;

/**
 * The webhook's authority and certificate: makes missing, damaged or ending ones and keeps the rest. A new authority is
 * first only trusted beside its predecessor; it signs the certificate when the API server knows it, so the API server
 * never meets a certificate of an unknown authority.
 *
 * `name`: of the Service, as the API server calls it. `believed`: the bundle of authorities that the API server has now.
 */
export async function planWebhookCertificates(
  name: string,
  observed: SecretTexts,
  believed: string,
  now: Date,
): Promise<WebhookCertificates> {
  const reasons: string[] = [];
  const before = observed['ca.crt'] ?? '';
  let bundle = unexpired(before, now);
  let authority: CertificateAndKey = { certificate: bundle[0] ?? '', key: observed['ca.key'] ?? '' };
  const fault = authorityFault(authority, now);
  if (fault !== undefined) {
    authority = await createAuthority('Hearth webhook', now);
    bundle = [authority.certificate, ...bundle];
    reasons.push(`a new authority was needed: ${fault}`);
  } else if (bundle.join('') !== before) {
    reasons.push('a former authority in it has expired');
  }

  const request = { commonName: name, names: [name], server: true };
  let leaf: CertificateAndKey = { certificate: observed['tls.crt'] ?? '', key: observed['tls.key'] ?? '' };
  const known = unexpired(believed, now).includes(authority.certificate);
  const mayStay = !known && bundle.some((certificate) => isGood(leaf, certificate, request, now));
  const leafReason = mayStay ? undefined : leafFault(leaf, authority, request, now);
  if (leafReason !== undefined) {
    leaf = await issueLeaf(authority, request, now);
    reasons.push(`a new certificate was needed: ${leafReason}`);
  }

  const renewals = [authority.certificate, leaf.certificate].map((one) => renewalTime(one)?.getTime() ?? 0);
  const next = known ? Math.min(...renewals) : now.getTime() + soonMs;
  return {
    texts: {
      'ca.crt': bundle.join(''),
      'ca.key': authority.key,
      'tls.crt': leaf.certificate,
      'tls.key': leaf.key,
    },
    reason: reasons.length === 0 ? undefined : reasons.join('; '),
    renewAt: new Date(next),
  };
}

/**
 * True when this authority signed the certificate, and it is not over. However old it is: there is no better one yet.
 */
function isGood(leaf: CertificateAndKey, authority: string, request: LeafRequest, now: Date): boolean {
  const atFirst = new Date(0);
  if ((expiryTime(leaf.certificate) ?? atFirst) <= now) return false;
  return leafFault(leaf, { certificate: authority, key: '' }, request, atFirst) === undefined;
}
