import { HearthError } from '@hearth/common';
import type { Credentials } from '@hearth/common/generated/hearth/v1/control.ts';
import { type KubernetesClient, kinds } from '@hearth/common/kubernetes';
import type { SourceKind } from '@hearth/common/resources';

/** `data` is secret and goes to agents only. */
export type SecretReading =
  | { kind: 'found'; data: Readonly<Record<string, string>> }
  | { kind: 'missing' }
  | { kind: 'forbidden'; message: string }
  | { kind: 'unavailable'; message: string };

export interface SecretReaderOptions {
  api: Pick<KubernetesClient, 'get'>;
  now(): number;
  /** Time until the next read of a found Secret. Default: five minutes. */
  foundMs?: number;
  /** Time until the next read of any other Secret. Default: 15 s. */
  failedMs?: number;
}

/** Caches Secrets, which the operator may not list or watch. Concurrent callers share one request. */
export class SecretReader {
  readonly #options: SecretReaderOptions;
  readonly #foundMs: number;
  readonly #failedMs: number;
  readonly #readings = new Map<string, { reading: SecretReading; nextAt: number }>();
  readonly #pending = new Map<string, Promise<SecretReading>>();

  constructor(options: SecretReaderOptions) {
    this.#options = options;
    this.#foundMs = options.foundMs ?? 300_000;
    this.#failedMs = options.failedMs ?? 15_000;
  }

  async get(namespace: string, name: string): Promise<SecretReading> {
    const key = `${namespace}/${name}`;
    const known = this.#readings.get(key);
    if (known !== undefined && known.nextAt > this.#options.now()) return known.reading;
    const pending = this.#pending.get(key) ?? this.#readAgain(key, namespace, name);
    this.#pending.set(key, pending);
    return await pending;
  }

  /** Milliseconds until `get` reads again; 0 for an unknown Secret. */
  staleInMs(namespace: string, name: string): number {
    const known = this.#readings.get(`${namespace}/${name}`);
    return known === undefined ? 0 : Math.max(0, known.nextAt - this.#options.now());
  }

  /** The Secret is unusable: reads it again as soon as a missing one. */
  retrySoon(namespace: string, name: string): void {
    const known = this.#readings.get(`${namespace}/${name}`);
    if (known !== undefined) known.nextAt = Math.min(known.nextAt, this.#options.now() + this.#failedMs);
  }

  forget(namespace: string, name: string): void {
    this.#readings.delete(`${namespace}/${name}`);
  }

  async #readAgain(key: string, namespace: string, name: string): Promise<SecretReading> {
    try {
      let reading = await this.#read(namespace, name);
      // An unreadable Secret keeps its last content.
      const before = this.#readings.get(key)?.reading;
      if (reading.kind === 'unavailable' && before !== undefined) reading = before;
      const forMs = reading.kind === 'found' ? this.#foundMs : this.#failedMs;
      this.#readings.set(key, { reading, nextAt: this.#options.now() + forMs });
      return reading;
    } finally {
      this.#pending.delete(key);
    }
  }

  async #read(namespace: string, name: string): Promise<SecretReading> {
    try {
      const secret = await this.#options.api.get(kinds.Secret, name, namespace);
      return secret === undefined ? { kind: 'missing' } : { kind: 'found', data: secret.data ?? {} };
    } catch (thrown) {
      const { code, message } = HearthError.from(thrown);
      return code === 'PermissionDenied' ? { kind: 'forbidden', message } : { kind: 'unavailable', message };
    }
  }
}

/** The chart's names of the role and account that read Secrets. */
export interface SecretGrant {
  /** A ClusterRole with `get` on Secrets, bound only in namespaces that allow it. */
  clusterRole: string;
  serviceAccount: { namespace: string; name: string };
}

/** The administrator's command that lets the operator read Secrets of a namespace. */
export function grantCommand({ clusterRole, serviceAccount }: SecretGrant, namespace: string): string {
  const account = `${serviceAccount.namespace}:${serviceAccount.name}`;
  return `kubectl create rolebinding ${clusterRole} --namespace=${namespace} --clusterrole=${clusterRole} --serviceaccount=${account}`;
}

type SecretKey = Exclude<keyof Credentials, 'mirrors'>;
const keysOf: Record<SourceKind, { needed: readonly SecretKey[]; optional: readonly SecretKey[] }> = {
  s3: { needed: ['accessKeyId', 'secretAccessKey'], optional: ['sessionToken'] },
  http: { needed: ['token'], optional: [] },
  hub: { needed: ['token'], optional: [] },
  directory: { needed: [], optional: [] },
  volume: { needed: [], optional: [] },
  selfTest: { needed: [], optional: [] },
};

export type CredentialsChoice =
  | { kind: 'found'; credentials: Credentials }
  /** Missing or empty keys. Key names are not secret. */
  | { kind: 'keysMissing'; keys: readonly string[]; present: readonly string[] };

/** Reads credentials from base64 data. Trims values, since files end with newlines. */
export function credentialsOf(kind: SourceKind, data: Readonly<Record<string, string>>): CredentialsChoice {
  const { needed, optional } = keysOf[kind];
  const values: Credentials = { token: '', accessKeyId: '', secretAccessKey: '', sessionToken: '' };
  for (const key of [...needed, ...optional]) values[key] = decode(data[key]);
  const keys = needed.filter((key) => values[key] === '');
  if (keys.length > 0) return { kind: 'keysMissing', keys, present: Object.keys(data).sort() };
  return { kind: 'found', credentials: values };
}

function decode(value: string | undefined): string {
  if (value === undefined) return '';
  const text = Buffer.from(value, 'base64').toString('utf8').trim();
  // Headers cannot carry control characters, so no token has them.
  return [...text].some((character) => character < ' ' || character === '\u007f' || character === '\ufffd') ? '' : text;
}
