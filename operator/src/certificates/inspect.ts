import { createPrivateKey, X509Certificate } from 'node:crypto';
import type { CertificateAndKey, LeafRequest } from './authority.ts';

const renewAfter = 2 / 3;

export function renewalTime(certificate: string): Date | undefined {
  const parsed = parse(certificate);
  if (parsed === undefined) return undefined;
  const [from, to] = [parsed.validFromDate.getTime(), parsed.validToDate.getTime()];
  return new Date(from + (to - from) * renewAfter);
}

export function expiryTime(certificate: string): Date | undefined {
  return parse(certificate)?.validToDate;
}

/** Why the authority is unusable, as the end of a sentence; undefined when it is usable. */
export function authorityFault(authority: Partial<CertificateAndKey>, now: Date): string | undefined {
  const certificate = parse(authority.certificate);
  if (certificate === undefined) return 'there was none';
  if (!certificate.ca) return 'it is not an authority';
  if (!belongs(certificate, authority.key)) return 'its key does not belong to it';
  return ageFault(certificate, now);
}

/** Why a leaf must be reissued, as the end of a sentence; undefined when it is good. */
export function leafFault(
  leaf: Partial<CertificateAndKey>,
  authority: CertificateAndKey,
  request: LeafRequest,
  now: Date,
): string | undefined {
  const certificate = parse(leaf.certificate);
  if (certificate === undefined) return 'there was none';
  if (!belongs(certificate, leaf.key)) return 'its key does not belong to it';
  const issuer = new X509Certificate(authority.certificate);
  if (!certificate.checkIssued(issuer) || !certificate.verify(issuer.publicKey)) {
    return 'another authority signed it';
  }
  const names = request.names.map((name) => `DNS:${name}`).join(', ');
  if (certificate.subjectAltName !== names) return 'it is for other names';
  return ageFault(certificate, now);
}

export function unexpired(bundle: string, now: Date): string[] {
  const blocks = bundle.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
  return blocks
    .map((block) => `${block}\n`)
    .filter((block) => {
      const expiry = expiryTime(block);
      return expiry !== undefined && expiry.getTime() > now.getTime();
    });
}

function ageFault(certificate: X509Certificate, now: Date): string | undefined {
  const to = certificate.validToDate.getTime();
  if (now.getTime() >= to) return 'it has expired';
  const from = certificate.validFromDate.getTime();
  return now.getTime() >= from + (to - from) * renewAfter ? 'two thirds of its life are over' : undefined;
}

function belongs(certificate: X509Certificate, key: string | undefined): boolean {
  try {
    return key !== undefined && certificate.checkPrivateKey(createPrivateKey(key));
  } catch {
    return false;
  }
}

function parse(text: string | undefined): X509Certificate | undefined {
  if (text === undefined || text === '') return undefined;
  try {
    return new X509Certificate(text);
  } catch {
    return undefined;
  }
}
