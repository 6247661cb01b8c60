import { HearthError, type Logger } from '@hearth/common';
import type { Dataset, Source } from '@hearth/common/generated/hearth/v1/control.ts';
import { splitKey } from '@hearth/common/kubernetes';
import type { Agents } from '../agents/index.ts';
import {
  choiceOf,
  credentialsDigest,
  hubLayoutFeature,
  mirrorsFeature,
  noCredentials,
  type Registration,
  volumeFeature,
} from './registration.ts';

export interface Attempt {
  choice: string;
  credentials: string;
  running: { filesListed: bigint; bytesListed: bigint } | undefined;
  /** The result of this listing, or of the one before while this one runs. */
  outcome: { kind: 'listed'; dataset: Dataset; at: number } | Failure | undefined;
}

export interface Failure {
  kind: 'failed';
  error: HearthError;
  at: number;
  failures: number;
}

export interface ResolutionsOptions {
  agents: Agents;
  changed(key: string): void;
  logger: Logger;
  now(): number;
  maxConcurrent: number;
}

const longestMs = 2 * 3_600_000;
const removalMs = 60_000;

/** Has agents list origins in the background, so that slow origins block no worker. One listing a Dataset at a time. */
export class Resolutions {
  readonly #options: ResolutionsOptions;
  readonly #attempts = new Map<string, Attempt>();
  readonly #stops = new Map<string, AbortController>();
  readonly #places: ListingPlaces;

  constructor(options: ResolutionsOptions) {
    this.#options = options;
    this.#places = new ListingPlaces(options.maxConcurrent);
  }

  get(key: string): Attempt | undefined {
    return this.#attempts.get(key);
  }

  /** Keeps a running listing of the same registration, and aborts one of another. */
  start(key: string, registration: Registration): void {
    const choice = choiceOf(registration);
    const credentials = credentialsDigest(registration.credentials);
    const before = this.#attempts.get(key);
    const same = before?.choice === choice;
    if (before?.running !== undefined) {
      if (same && before.credentials === credentials) return;
      this.#stops.get(key)?.abort();
    }
    const stop = new AbortController();
    this.#stops.set(key, stop);
    const outcome = same ? before.outcome : undefined;
    this.#attempts.set(key, { choice, credentials, running: { filesListed: 0n, bytesListed: 0n }, outcome });
    void this.#run(key, registration, stop.signal);
  }

  forget(key: string): void {
    this.#stops.get(key)?.abort();
    this.#stops.delete(key);
    this.#attempts.delete(key);
  }

  close(): void {
    for (const key of [...this.#attempts.keys()]) this.forget(key);
  }

  async #run(key: string, registration: Registration, signal: AbortSignal): Promise<void> {
    const { namespace = '' } = splitKey(key);
    await this.#places.take(namespace);
    try {
      signal.throwIfAborted();
      const dataset = await this.#add(key, registration, signal);
      this.#end(key, signal, () => ({ kind: 'listed', dataset, at: this.#options.now() }));
    } catch (thrown) {
      this.#end(key, signal, (before) => {
        const error = HearthError.from(thrown);
        const failures = before?.kind === 'failed' ? before.failures + 1 : 1;
        this.#options.logger.info('failed to list the origin of a dataset', { dataset: key, error, failures });
        return { kind: 'failed', error, at: this.#options.now(), failures };
      });
    } finally {
      this.#places.give(namespace);
    }
  }

  #end(key: string, signal: AbortSignal, outcome: (before: Attempt['outcome']) => Attempt['outcome']): void {
    const attempt = this.#attempts.get(key);
    if (signal.aborted || attempt === undefined) return;
    this.#attempts.set(key, { ...attempt, running: undefined, outcome: outcome(attempt.outcome) });
    this.#stops.delete(key);
    this.#options.changed(key);
  }

  async #add(key: string, registration: Registration, signal: AbortSignal): Promise<Dataset> {
    try {
      return await this.#list(key, registration, signal);
    } catch (thrown) {
      if (HearthError.from(thrown).code !== 'AlreadyExists') throw thrown;
      // The agents know the name with other patterns. Bytes that both patterns choose stay.
      const agents = this.#agents(registration.cluster);
      const remove = { name: registration.name, evict: false, nodes: [] };
      await agents.call('removeDataset', remove, { signal, deadlineMs: removalMs }).catch((refused) => {
        const error = HearthError.from(refused);
        if (error.code !== 'NotFound') throw error.within('agents cannot choose its files again yet');
      });
      return await this.#list(key, registration, signal);
    }
  }

  async #list(key: string, registration: Registration, signal: AbortSignal): Promise<Dataset> {
    const { cluster, name, source } = registration;
    const include = [...registration.include];
    const exclude = [...registration.exclude];
    // Empty credentials clear earlier ones; absent ones would not.
    const credentials = registration.credentials ?? noCredentials;
    const request = { name, source, include, exclude, credentials };
    const needed = featureOf(source);
    const feature = needed === undefined ? {} : { feature: needed };
    for await (const progress of this.#agents(cluster).stream('addDataset', request, {
      signal,
      deadlineMs: longestMs,
      ...feature,
    })) {
      if (progress.dataset !== undefined) return progress.dataset;
      const attempt = this.#attempts.get(key);
      if (signal.aborted || attempt === undefined) continue;
      const { filesListed, bytesListed } = progress;
      this.#attempts.set(key, { ...attempt, running: { filesListed, bytesListed } });
      this.#options.changed(key);
    }
    throw new HearthError('ProtocolError', 'the agent ended the listing without a result; update it');
  }

  #agents(cluster: string) {
    const agents = this.#options.agents.get(cluster);
    if (agents !== undefined) return agents;
    throw new HearthError('Unavailable', `the operator cannot reach the agents of StorageCluster ${cluster} yet`);
  }
}

/** A Dataset has mirrors, the layout of a cache or a volume, and only one of them. */
function featureOf({ mirrors, kind }: Source): string | undefined {
  if (mirrors !== undefined) return mirrorsFeature;
  if (kind?.$case === 'volume') return volumeFeature;
  return kind?.$case === 'hub' && kind.value.layout === 'hub' ? hubLayoutFeature : undefined;
}

/** A semaphore that leaves each namespace at most three quarters of the places, for other tenants. */
export class ListingPlaces {
  readonly #perNamespace: number;
  readonly #taken = new Map<string, number>();
  readonly #waiting: { namespace: string; begin: () => void }[] = [];
  #free: number;

  constructor(total: number) {
    this.#free = total;
    this.#perNamespace = Math.ceil((total * 3) / 4);
  }

  /** Resolves with a place. First come, first served, within the limits of namespaces. */
  async take(namespace: string): Promise<void> {
    if (this.#mayTake(namespace)) this.#count(namespace, 1);
    else await new Promise<void>((begin) => this.#waiting.push({ namespace, begin }));
  }

  give(namespace: string): void {
    this.#count(namespace, -1);
    const next = this.#waiting.findIndex((one) => this.#mayTake(one.namespace));
    if (next < 0) return;
    // Counts the place now, so that no other caller takes it.
    const [first] = this.#waiting.splice(next, 1);
    this.#count(first?.namespace ?? '', 1);
    first?.begin();
  }

  #mayTake(namespace: string): boolean {
    return this.#free > 0 && (this.#taken.get(namespace) ?? 0) < this.#perNamespace;
  }

  #count(namespace: string, change: 1 | -1): void {
    this.#free -= change;
    const taken = (this.#taken.get(namespace) ?? 0) + change;
    if (taken === 0) this.#taken.delete(namespace);
    else this.#taken.set(namespace, taken);
  }
}
