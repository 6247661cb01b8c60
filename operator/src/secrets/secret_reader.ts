import { HearthError } from '@hearth/common';
import { type KubernetesClient, kinds } from '@hearth/common/kubernetes';

/** The result of reading a Secret. `data` is secret: it goes to agents and nowhere else. */
export type SecretReading =
  | { kind: 'found'; data: Readonly<Record<string, string>> }
  | { kind: 'missing' }
  /** The API server refuses; the message is its own. */
  | { kind: 'forbidden'; message: string }
  /** Not known: the API server does not answer. */
  | { kind: 'unavailable'; message: string };

export interface SecretReaderOptions {
  api: Pick<KubernetesClient, 'get'>;
  /** Milliseconds since the epoch. */
  now(): number;
  /** A Secret that was found is read again after this time, milliseconds. Absent: five minutes. */
  foundMs?: number;
  /** One that was not, after this. Absent: 15 s. */
  failedMs?: number;
}

/**
 * Reads Secrets by name. The operator may not list or watch them, so changes are found by reading again: `get`
 * answers from memory until the time for that has come, also for callers that come at the same time.
 */
export class SecretReader {
  readonly #options: SecretReaderOptions;
  readonly #foundMs: number;
  readonly #failedMs: number;
  readonly #readings = new Map<string, { reading: SecretReading; nextAt: number }>();
  readonly #underWay = new Map<string, Promise<SecretReading>>();

  constructor(options: SecretReaderOptions) {
    this.#options = options;
    this.#foundMs = options.foundMs ?? 300_000;
    this.#failedMs = options.failedMs ?? 15_000;
  }

  async get(namespace: string, name: string): Promise<SecretReading> {
    const key = `${namespace}/${name}`;
    const known = this.#readings.get(key);
    if (known !== undefined && known.nextAt > this.#options.now()) return known.reading;
    const underWay = this.#underWay.get(key) ?? this.#readAgain(key, namespace, name);
    this.#underWay.set(key, underWay);
    return await underWay;
  }

  /** Milliseconds until `get` will ask the API server again; 0 for a Secret that was never read. */
  staleInMs(namespace: string, name: string): number {
    const known = this.#readings.get(`${namespace}/${name}`);
    return known === undefined ? 0 : Math.max(0, known.nextAt - this.#options.now());
  }

  /** The Secret cannot be used: the reader looks again as soon as for a missing one. */
  retrySoon(namespace: string, name: string): void {
    const known = this.#readings.get(`${namespace}/${name}`);
    if (known !== undefined) known.nextAt = Math.min(known.nextAt, this.#options.now() + this.#failedMs);
  }

  /** No Dataset needs it any more. */
  forget(namespace: string, name: string): void {
    this.#readings.delete(`${namespace}/${name}`);
  }

  async #readAgain(key: string, namespace: string, name: string): Promise<SecretReading> {
    try {
      let reading = await this.#read(namespace, name);
      // A Secret that cannot be read now may still be unchanged.
      const before = this.#readings.get(key)?.reading;
      if (reading.kind === 'unavailable' && before !== undefined) reading = before;
      const forMs = reading.kind === 'found' ? this.#foundMs : this.#failedMs;
      this.#readings.set(key, { reading, nextAt: this.#options.now() + forMs });
      return reading;
    } finally {
      this.#underWay.delete(key);
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
