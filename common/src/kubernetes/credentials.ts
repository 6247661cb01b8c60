import { readFile } from 'node:fs/promises';
import type { Agent } from 'node:http';
import type { RequestOptions } from 'node:https';
import { join } from 'node:path';
import type { KubeConfig } from '@kubernetes/client-node';
import { type Clock, systemClock } from '../clock.ts';
import { HearthError } from '../error.ts';

/** How to reach the API server at this moment. */
export interface Connection {
  server: URL;
  /** Secret. */
  headers: Readonly<Record<string, string>>;
  /** CA certificates, client certificate and server name. */
  tls: Readonly<TlsOptions>;
  /** Present only where a proxy is configured. */
  proxy?: Agent;
}

export type TlsOptions = Pick<
  RequestOptions,
  'ca' | 'cert' | 'key' | 'passphrase' | 'servername' | 'rejectUnauthorized'
>;

/** Source of a connection's address, CA certificates and secrets. */
export interface Credentials {
  connection(): Promise<Connection>;
  /** The server rejected the credentials: reload them before the next request. */
  refused(): void;
}

const serviceAccountFolder = '/var/run/secrets/kubernetes.io/serviceaccount';
/** The kubelet renews tokens long before they expire; client-go also re-reads them once a minute. */
const readIntervalMs = 60_000;

/** Service account of a pod: files renewed by the kubelet, address from the environment. */
export class ServiceAccountCredentials implements Credentials {
  readonly #folder: string;
  readonly #clock: Clock;
  readonly #server: URL;
  #present: { connection: Connection; until: number } | undefined;

  constructor(environment: NodeJS.ProcessEnv, folder: string = serviceAccountFolder, clock: Clock = systemClock) {
    this.#clock = clock;
    const { KUBERNETES_SERVICE_HOST: host = '', KUBERNETES_SERVICE_PORT: port = '443' } = environment;
    this.#folder = folder;
    this.#server = new URL(`https://${host.includes(':') ? `[${host}]` : host}:${port}`);
  }

  async connection(): Promise<Connection> {
    if (this.#present !== undefined && this.#clock.now() < this.#present.until) return this.#present.connection;
    const [token, ca] = await Promise.all([this.#read('token'), this.#read('ca.crt')]);
    const connection = { server: this.#server, headers: { authorization: `Bearer ${token.trim()}` }, tls: { ca } };
    this.#present = { connection, until: this.#clock.now() + readIntervalMs };
    return connection;
  }

  refused(): void {
    this.#present = undefined;
  }

  async #read(name: string): Promise<string> {
    try {
      return await readFile(join(this.#folder, name), 'utf8');
    } catch (thrown) {
      throw new HearthError(
        'Unauthenticated',
        `The service account's ${name} cannot be read (${(thrown as NodeJS.ErrnoException).code}). ` +
          'Set automountServiceAccountToken for the pod, or KUBECONFIG outside of a cluster',
        { cause: thrown },
      );
    }
  }
}

/** The kubeconfig's files and exec plugins may change as well; client-node caches exec tokens until they expire. */
const evaluateIntervalMs = 10_000;

/**
 * Every credential type of a kubeconfig: certificates, tokens, exec plugins, OpenID Connect, proxies. client-node takes
 * 80 MiB, so only this class loads it; pods with a service account do not.
 */
export class KubeConfigCredentials implements Credentials {
  readonly #load: () => Promise<KubeConfig>;
  #config: KubeConfig | undefined;
  readonly #clock: Clock;
  #present: { connection: Connection; until: number } | undefined;

  constructor(load: () => Promise<KubeConfig>, clock: Clock = systemClock) {
    this.#load = load;
    this.#clock = clock;
  }

  async connection(): Promise<Connection> {
    if (this.#present !== undefined && this.#clock.now() < this.#present.until) return this.#present.connection;
    const connection = await this.#evaluate();
    this.#present = { connection, until: this.#clock.now() + evaluateIntervalMs };
    return connection;
  }

  refused(): void {
    this.#present = undefined;
  }

  async #evaluate(): Promise<Connection> {
    try {
      this.#config ??= await this.#load();
      const cluster = this.#config.getCurrentCluster();
      if (!cluster) throw new Error('it has no current cluster');
      const options: RequestOptions = {};
      await this.#config.applyToHTTPSOptions(options);
      const headers: Record<string, string> = {};
      for (const [name, value] of Object.entries(options.headers ?? {})) headers[name.toLowerCase()] = String(value);
      if (typeof options.auth === 'string') {
        headers.authorization = `Basic ${Buffer.from(options.auth).toString('base64')}`;
      }
      const { ca, cert, key, passphrase, servername, rejectUnauthorized } = options;
      const tls = Object.fromEntries(
        Object.entries({ ca, cert, key, passphrase, servername, rejectUnauthorized }).filter(([, value]) => value),
      );
      if (rejectUnauthorized === false) tls.rejectUnauthorized = false;
      const connection: Connection = { server: new URL(cluster.server), headers, tls };
      if (cluster.proxyUrl && options.agent) connection.proxy = options.agent as Agent;
      return connection;
    } catch (thrown) {
      throw new HearthError('Unauthenticated', `The kubeconfig cannot be used: ${(thrown as Error).message}`, {
        cause: thrown,
      });
    }
  }
}

/** KUBECONFIG if set, else the pod's service account, else ~/.kube/config. */
export function defaultCredentials(environment: NodeJS.ProcessEnv = process.env): Credentials {
  if (!environment.KUBECONFIG && environment.KUBERNETES_SERVICE_HOST) return new ServiceAccountCredentials(environment);
  return new KubeConfigCredentials(async () => {
    const { KubeConfig } = await import('@kubernetes/client-node');
    const config = new KubeConfig();
    config.loadFromDefault();
    return config;
  });
}
