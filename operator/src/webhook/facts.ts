import {
  type Clock,
  type KubernetesClient,
  kinds,
  type Pod,
  sleep,
  splitKey,
  systemClock,
} from '@hearth/common/kubernetes';
import type { Dataset } from '@hearth/common/resources';
import {
  type ClaimView,
  claimView,
  type Known,
  type Missing,
  type PodDatasets,
  podDatasets,
  type VolumeFacts,
  volumeFacts,
} from '../gates/index.ts';
import type { Source } from '../kubernetes/index.ts';

type Watched<P> = Pick<Source<P>, 'get' | 'onChange'>;

export interface FactsOptions {
  /** Reads objects that the reflectors lack; should share connections with nothing slow. */
  api: Pick<KubernetesClient, 'get'>;
  claims: Watched<ClaimView>;
  volumes: Watched<VolumeFacts>;
  datasets: Watched<Dataset>;
  /** How long to wait for missing objects, which often arrive with their pod. Default: 500 ms. */
  timeoutMs?: number;
  clock?: Clock;
}

/** Finds the Datasets of pods under admission, in the reflectors and at the API server. */
export class Facts {
  readonly #options: FactsOptions;

  constructor(options: FactsOptions) {
    this.#options = options;
  }

  /** Ends after the timeout, or with `Cancelled` by the signal. Returns objects that are still missing. */
  async of(pod: Pod, namespace: string, signal: AbortSignal): Promise<PodDatasets> {
    const { claims, volumes, datasets, timeoutMs = 500, clock = systemClock } = this.#options;
    const until = clock.now() + timeoutMs;
    const lookup = new PodLookup(this.#options);
    for (let last = false; ; ) {
      let awaited: ReadonlySet<string> = new Set();
      const changed = new AbortController();
      const wake = (kind: Missing['kind']) => (key: string) => {
        if (awaited.has(`${kind} ${key}`)) changed.abort();
      };
      const stops = [
        claims.onChange(wake('PersistentVolumeClaim')),
        volumes.onChange(wake('PersistentVolume')),
        datasets.onChange(wake('Dataset')),
      ];
      try {
        const found = await this.#resolve(pod, namespace, lookup, signal);
        if (found.missing.length === 0 || last) return found;
        awaited = new Set(found.missing.map(({ kind, key }) => `${kind} ${key}`));
        await sleep(clock, Math.max(0, until - clock.now()), AbortSignal.any([changed.signal, signal]));
        signal.throwIfAborted();
        // The last look asks the API server again, since watches may lag.
        last = !changed.signal.aborted || clock.now() >= until;
        if (last) lookup.forget();
      } finally {
        for (const stop of stops) stop();
      }
    }
  }

  async #resolve(pod: Pod, namespace: string, lookup: PodLookup, signal: AbortSignal): Promise<PodDatasets> {
    for (;;) {
      const found = podDatasets(pod, namespace, lookup);
      const open = found.missing.filter((one) => !lookup.has(one)).slice(0, lookup.requestsLeft);
      if (open.length === 0) return found;
      await Promise.all(open.map((one) => lookup.fetch(one, signal)));
    }
  }
}

/** Requests for one pod. Objects beyond this limit count as missing, so a hostile pod cannot flood the API server. */
const maxRequests = 64;

/** Objects from the reflectors, then from the API server's answers. */
class PodLookup implements Known {
  readonly #options: FactsOptions;
  readonly #answers = new Map<string, unknown>();
  requestsLeft = maxRequests;

  constructor(options: FactsOptions) {
    this.#options = options;
  }

  claim(key: string): ClaimView | undefined {
    return this.#options.claims.get(key) ?? this.#answer('PersistentVolumeClaim', key);
  }

  volume(name: string): VolumeFacts | undefined {
    return this.#options.volumes.get(name) ?? this.#answer('PersistentVolume', name);
  }

  dataset(key: string): Dataset | undefined {
    return this.#options.datasets.get(key) ?? this.#answer('Dataset', key);
  }

  has({ kind, key }: Missing): boolean {
    return this.#answers.has(`${kind} ${key}`);
  }

  async fetch({ kind, key }: Missing, signal: AbortSignal): Promise<void> {
    this.requestsLeft -= 1;
    this.#answers.set(`${kind} ${key}`, await this.#get(kind, key, signal));
  }

  /** Has `fetch` fetch again for objects that did not exist. */
  forget(): void {
    for (const [key, answer] of this.#answers) if (answer === undefined) this.#answers.delete(key);
  }

  #answer<T>(kind: Missing['kind'], key: string): T | undefined {
    return this.#answers.get(`${kind} ${key}`) as T | undefined;
  }

  async #get(kind: Missing['kind'], key: string, signal: AbortSignal): Promise<unknown> {
    const { api } = this.#options;
    const { name, namespace } = splitKey(key);
    switch (kind) {
      case 'PersistentVolumeClaim': {
        const claim = await api.get(kinds.PersistentVolumeClaim, name, namespace, signal);
        return claim && claimView(claim);
      }
      case 'PersistentVolume': {
        const volume = await api.get(kinds.PersistentVolume, name, undefined, signal);
        return volume && volumeFacts(volume);
      }
      case 'Dataset':
        return await api.get(kinds.Dataset, name, namespace, signal);
    }
  }
}
