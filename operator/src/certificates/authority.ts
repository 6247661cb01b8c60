import 'reflect-metadata';
import { createPrivateKey, webcrypto, X509Certificate } from 'node:crypto';
import * as x509 from '@peculiar/x509';

/** PEM; the key is PKCS #8. */
export type CertificateAndKey = { certificate: string; key: string };

export interface LeafRequest {
  commonName: string;
  /** DNS names, which the peer checks. */
  names: readonly string[];
  /** Allows server authentication beside client authentication. */
  server: boolean;
}

const day = 24 * 60 * 60 * 1000;
export const authorityLifeMs = 3650 * day;
export const leafLifeMs = 90 * day;
/** Clocks differ, so a certificate is valid from a little before its creation. */
const clockSkewMs = 60 * 60 * 1000;
/** Between a new authority in the bundles of all peers and the first leaf that it signs. */
const overlapMs = day;

const keyAlgorithm = { name: 'ECDSA', namedCurve: 'P-256' } as const;
const signingAlgorithm = { name: 'ECDSA', hash: 'SHA-256' } as const;

/** Creates a self-signed authority: ECDSA P-256, 10 years, signs leaves only. */
export async function createAuthority(commonName: string, now: Date): Promise<CertificateAndKey> {
  const keys = await webcrypto.subtle.generateKey(keyAlgorithm, true, ['sign', 'verify']);
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    // OpenSSL takes the first authority of the issuer's name, so authorities in one bundle need different names.
    name: [{ CN: [commonName] }, { OU: [now.toISOString()] }],
    keys,
    signingAlgorithm,
    notBefore: new Date(now.getTime() - clockSkewMs),
    notAfter: new Date(now.getTime() + authorityLifeMs),
    extensions: [
      new x509.BasicConstraintsExtension(true, 0, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
  return { certificate: pem(certificate), key: await exportKey(keys.privateKey) };
}

/** Issues a leaf: ECDSA P-256, 90 days, but no longer than the authority. */
export async function issueLeaf(
  authority: CertificateAndKey,
  request: LeafRequest,
  now: Date,
): Promise<CertificateAndKey> {
  const issuer = new x509.X509Certificate(authority.certificate);
  const keys = await webcrypto.subtle.generateKey(keyAlgorithm, true, ['sign', 'verify']);
  const uses = [x509.ExtendedKeyUsage.clientAuth, ...(request.server ? [x509.ExtendedKeyUsage.serverAuth] : [])];
  const extensions: x509.Extension[] = [
    new x509.BasicConstraintsExtension(false, undefined, true),
    new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
    new x509.ExtendedKeyUsageExtension(uses),
    new x509.SubjectAlternativeNameExtension(request.names.map((value) => ({ type: 'dns', value }))),
  ];
  const certificate = await x509.X509CertificateGenerator.create({
    subject: [{ CN: [request.commonName] }],
    issuer: issuer.subjectName,
    publicKey: keys.publicKey,
    signingKey: await importKey(authority.key),
    signingAlgorithm,
    notBefore: new Date(now.getTime() - clockSkewMs),
    notAfter: new Date(Math.min(now.getTime() + leafLifeMs, issuer.notAfter.getTime())),
    extensions,
  });
  return { certificate: pem(certificate), key: await exportKey(keys.privateKey) };
}

function pem(certificate: x509.X509Certificate): string {
  return `${certificate.toString('pem')}\n`;
}

async function exportKey(key: webcrypto.CryptoKey): Promise<string> {
  const der = Buffer.from(await webcrypto.subtle.exportKey('pkcs8', key));
  return createPrivateKey({ key: der, format: 'der', type: 'pkcs8' })
    .export({ type: 'pkcs8', format: 'pem' })
    .toString();
}

async function importKey(text: string): Promise<webcrypto.CryptoKey> {
  const der = createPrivateKey(text).export({ type: 'pkcs8', format: 'der' });
  return await webcrypto.subtle.importKey('pkcs8', der, keyAlgorithm, false, ['sign']);
}

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

/** Why the authority must be replaced, as the end of a sentence; undefined when it is good. */
function authorityFault(authority: Partial<CertificateAndKey>, now: Date): string | undefined {
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

/** Authorities that a bundle trusts, the one that signs first. */
export interface Trust {
  bundle: string[];
  authority: CertificateAndKey;
  /** Why the Secret of the authority must be written, as the end of a sentence; undefined when it is current. */
  reason: string | undefined;
}

/** Replaces an unusable or ageing authority. Former ones stay in the bundle until they expire. */
export async function renewTrust(
  commonName: string,
  observed: { bundle: string | undefined; key: string | undefined },
  now: Date,
): Promise<Trust> {
  const bundle = unexpired(observed.bundle ?? '', now);
  const authority = { certificate: bundle[0] ?? '', key: observed.key ?? '' };
  const fault = authorityFault(authority, now);
  if (fault === undefined) {
    const reason = bundle.join('') === observed.bundle ? undefined : 'a former authority in it has expired';
    return { bundle, authority, reason };
  }
  const made = await createAuthority(commonName, now);
  return { bundle: [made.certificate, ...bundle], authority: made, reason: `a new authority was needed: ${fault}` };
}

/**
 * Issues a leaf instead of a missing, damaged, ageing or foreign one. While peers may not trust the first authority yet
 * (`trusted` is false), a valid leaf of a former one stays, however old.
 */
export async function renewLeaf(
  { bundle, authority }: Trust,
  leaf: CertificateAndKey,
  request: LeafRequest,
  trusted: boolean,
  now: Date,
): Promise<{ leaf: CertificateAndKey; reason: string | undefined }> {
  if (!trusted && bundle.some((certificate) => isValid(leaf, certificate, request, now))) {
    return { leaf, reason: undefined };
  }
  const reason = leafFault(leaf, authority, request, now);
  return { leaf: reason === undefined ? leaf : await issueLeaf(authority, request, now), reason };
}

/** True for an unexpired leaf of this authority, however old. */
function isValid(leaf: CertificateAndKey, certificate: string, request: LeafRequest, now: Date): boolean {
  const epoch = new Date(0);
  if ((expiryTime(leaf.certificate) ?? epoch) <= now) return false;
  return leafFault(leaf, { certificate, key: '' }, request, epoch) === undefined;
}

/** From then on every peer trusts the authority: an ample multiple of the time in which pods see a changed Secret. */
export function trustedFrom(authority: string): Date {
  return new Date((parse(authority)?.validFromDate.getTime() ?? 0) + clockSkewMs + overlapMs);
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
