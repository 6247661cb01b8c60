import { renewalTime, renewLeaf, renewTrust, unexpired } from '../certificates/index.ts';
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
  const trust = await renewTrust('Hearth webhook', { bundle: observed['ca.crt'], key: observed['ca.key'] }, now);
  const { authority, bundle } = trust;
  const request = { commonName: name, names: [name], server: true };
  const present = { certificate: observed['tls.crt'] ?? '', key: observed['tls.key'] ?? '' };
  const known = unexpired(trusted, now).includes(authority.certificate);
  const { leaf, reason } = await renewLeaf(trust, present, request, known, now);
  const reasons = [trust.reason ?? [], reason === undefined ? [] : `a new certificate was needed: ${reason}`].flat();

  const renewals = [authority.certificate, leaf.certificate].map((one) => renewalTime(one)?.getTime() ?? 0);
  const next = known ? Math.min(...renewals) : now.getTime() + soonMs;
  return {
    texts: { 'ca.crt': bundle.join(''), 'ca.key': authority.key, 'tls.crt': leaf.certificate, 'tls.key': leaf.key },
    reason: reasons.length === 0 ? undefined : reasons.join('; '),
    renewAt: new Date(next),
  };
}
