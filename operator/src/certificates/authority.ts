import 'reflect-metadata';
import { createPrivateKey, webcrypto } from 'node:crypto';
import * as x509 from '@peculiar/x509';

/** PEM; the key is PKCS #8. */
export interface CertificateAndKey {
  certificate: string;
  key: string;
}

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

const keyAlgorithm = { name: 'ECDSA', namedCurve: 'P-256' } as const;
const signingAlgorithm = { name: 'ECDSA', hash: 'SHA-256' } as const;

/** Creates a self-signed authority: ECDSA P-256, 10 years, signs leaves only. */
export async function createAuthority(commonName: string, now: Date): Promise<CertificateAndKey> {
  const keys = await webcrypto.subtle.generateKey(keyAlgorithm, true, ['sign', 'verify']);
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    name: [{ CN: [commonName] }],
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
