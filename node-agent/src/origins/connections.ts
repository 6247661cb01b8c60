import { readFileSync } from 'node:fs';
import { type AgentOptions, Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import { createSecureContext, getCACertificates, type SecureContext } from 'node:tls';
import { HearthError } from '@hearth/common';
import { ProxyChoice } from '@hearth/engine';
import type { AddressPolicy } from './address_policy.ts';

/** Maximum number of sockets of one origin to one host. */
export const socketsPerHost = 32;

/** Connection pools for http and for https URLs. */
export interface Agents {
  http: HttpAgent;
  https: HttpsAgent;
}

/**
 * The keep-alive connections of one origin. Direct connections are subject to the address policy; connections to a
 * proxy are not, because the administrator chose the proxy.
 */
export interface Connections {
  /** The pools for a request to this URL. */
  agentsFor(url: URL): Agents;
  /** Scheme, host and port of the proxy for this URL; '' for none. */
  proxyFor(url: URL): string;
  /** Closes all connections. Idempotent. */
  close(): void;
}

/**
 * `certificateAuthorities`: PEM file that replaces the system's CAs, like libcurl's CAINFO in the engine; '' for the
 * system's. Throws `InvalidArgument` when the file is unreadable or contains no certificate.
 */
export function openConnections(
  policy: AddressPolicy,
  certificateAuthorities: string,
  proxies: ProxyChoice = new ProxyChoice({ http: '', https: '', none: '' }),
): Connections {
  const context = secureContext(certificateAuthorities);
  const open = (more: AgentOptions): Agents => {
    const shared = { keepAlive: true, maxSockets: socketsPerHost, ...more };
    return { http: new HttpAgent(shared), https: new HttpsAgent({ ...shared, secureContext: context }) };
  };
  const direct = open({ lookup: policy.lookup });
  const proxied = new Map<string, Agents>();
  return {
    agentsFor(url) {
      const proxy = proxies.of(url);
      if (proxy === '') return direct;
      const agents = proxied.get(proxy) ?? open({ proxyEnv: { http_proxy: proxy, https_proxy: proxy } });
      proxied.set(proxy, agents);
      return agents;
    },
    proxyFor(url) {
      const proxy = proxies.of(url);
      return proxy === '' ? '' : new URL(proxy).origin;
    },
    close() {
      for (const { http, https } of [direct, ...proxied.values()]) {
        http.destroy();
        https.destroy();
      }
    },
  };
}

let systemContext: SecureContext | undefined;

/** Parsing a few hundred certificates takes tens of milliseconds, so connections share the result. */
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
