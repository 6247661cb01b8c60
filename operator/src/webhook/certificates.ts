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
  /** Contents of the Secret: ca.crt (the authority, then former ones), ca.key, tls.crt, tls.key. */
  texts: SecretTexts;
  /** Why the Secret must be written, as the end of a sentence; undefined when it is current. */
  reason: string | undefined;
  renewAt: Date;
}

/** The pause during a change of the authority, ms. */
const soonMs = 1_000;

/**
 * Issues missing, damaged or expiring certificates and keeps the others. A new authority joins the bundle first, and
 * signs a certificate only when the API server trusts it. `name`: the Service, as the API server calls it. `trusted`:
 * the API server's present bundle.
 */
export async function planWebhookCertificates(
  name: string,
  observed: SecretTexts,
  trusted: string,
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
  const known = unexpired(trusted, now).includes(authority.certificate);
  const keepsLeaf = !known && bundle.some((certificate) => isGood(leaf, certificate, request, now));
  const leafReason = keepsLeaf ? undefined : leafFault(leaf, authority, request, now);
  if (leafReason !== undefined) {
    leaf = await issueLeaf(authority, request, now);
    reasons.push(`a new certificate was needed: ${leafReason}`);
  }

  const renewals = [authority.certificate, leaf.certificate].map((one) => renewalTime(one)?.getTime() ?? 0);
  const next = known ? Math.min(...renewals) : now.getTime() + soonMs;
  return {
    texts: { 'ca.crt': bundle.join(''), 'ca.key': authority.key, 'tls.crt': leaf.certificate, 'tls.key': leaf.key },
    reason: reasons.length === 0 ? undefined : reasons.join('; '),
    renewAt: new Date(next),
  };
}

/** True for an unexpired certificate of this authority, however old. */
function isGood(leaf: CertificateAndKey, authority: string, request: LeafRequest, now: Date): boolean {
  const epoch = new Date(0);
  if ((expiryTime(leaf.certificate) ?? epoch) <= now) return false;
  return leafFault(leaf, { certificate: authority, key: '' }, request, epoch) === undefined;
}
