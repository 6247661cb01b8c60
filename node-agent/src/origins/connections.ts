import { readFileSync } from 'node:fs';
import { Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import { createSecureContext, getCACertificates, type SecureContext } from 'node:tls';
import { HearthError } from '@hearth/common';
import type { AddressPolicy } from './address_policy.ts';

/** Sockets of one origin to one host at once. */
export const socketsPerHost = 32;

/** The keep-alive connections of one origin: every one of them passes the address policy. */
export interface Connections {
  http: HttpAgent;
  https: HttpsAgent;
  /** Ends all connections. Idempotent. */
  close(): void;
}

/**
 * `certificateAuthorities`: PEM file that replaces the system's authorities, as libcurl's CAINFO does in the
 * engine; '' for the system's. `InvalidArgument` when the file cannot be read or holds no certificate.
 */
export function openConnections(policy: AddressPolicy, certificateAuthorities: string): Connections {
  const shared = { keepAlive: true, maxSockets: socketsPerHost, lookup: policy.lookup };
  const http = new HttpAgent(shared);
  const https = new HttpsAgent({ ...shared, secureContext: secureContext(certificateAuthorities) });
  return {
    http,
    https,
    close() {
      http.destroy();
      https.destroy();
    },
  };
}

let systemContext: SecureContext | undefined;

/** Parsing a few hundred certificates takes tens of milliseconds: once for all, not once a connection. */
function secureContext(file: string): SecureContext {
  if (file === '') {
    const system = getCACertificates('system');
    systemContext ??= createSecureContext({ ca: system.length > 0 ? system : getCACertificates('default') });
    return systemContext;
  }
  let pem: string;
  try {
    pem = readFileSync(file, 'utf8');
  } catch (error) {
    throw new HearthError(
      'InvalidArgument',
      `the file of certificate authorities ${file} cannot be read: ${(error as Error).message}`,
    );
  }
  if (!pem.includes('-----BEGIN CERTIFICATE-----')) {
    throw new HearthError(
      'InvalidArgument',
      `the file of certificate authorities ${file} holds no certificate in PEM format`,
    );
  }
  try {
    return createSecureContext({ ca: pem });
  } catch (error) {
    throw new HearthError('InvalidArgument', `the certificates in ${file} cannot be used: ${(error as Error).message}`);
  }
}
