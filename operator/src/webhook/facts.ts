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
  /** For what the reflectors do not know; its connections are best shared with nothing slow. */
  api: Pick<KubernetesClient, 'get'>;
  claims: Watched<ClaimView>;
  volumes: Watched<VolumeFacts>;
  datasets: Watched<Dataset>;
  /** How long an object that is not there is waited for: it is often made with the pod. Absent: 500. */
  timeoutMs?: number;
  clock?: Clock;
}

/** Finds the Datasets of pods that are being made: from the reflectors, and by asking for what they do not know. */
export class Facts {
  readonly #options: FactsOptions;

  constructor(options: FactsOptions) {
    this.#options = options;
  }

  /** Ends after the timeout, or earlier by the signal (`Cancelled`). What is missing then was not there a moment ago. */
  async of(pod: Pod, namespace: string, signal: AbortSignal): Promise<PodDatasets> {
    const { claims, volumes, datasets, timeoutMs = 500, clock = systemClock } = this.#options;
    const until = clock.now() + timeoutMs;
    const asked = new Asked(this.#options);
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
        const found = await this.#withAsked(pod, namespace, asked, signal);
        if (found.missing.length === 0 || last) return found;
        awaited = new Set(found.missing.map(({ kind, key }) => `${kind} ${key}`));
        await sleep(clock, Math.max(0, until - clock.now()), AbortSignal.any([changed.signal, signal]));
        signal.throwIfAborted();
        // The last look is at the API server itself: its watches may be late.
        last = !changed.signal.aborted || clock.now() >= until;
        if (last) asked.forget();
      } finally {
        for (const stop of stops) stop();
      }
    }
  }

  /** Each answer may lead to the next object: a claim to its volume, and that to its Dataset. */
  async #withAsked(pod: Pod, namespace: string, asked: Asked, signal: AbortSignal): Promise<PodDatasets> {
    for (;;) {
      const found = podDatasets(pod, namespace, asked);
      const open = found.missing.filter((one) => !asked.has(one)).slice(0, asked.left);
      if (open.length === 0) return found;
      await Promise.all(open.map((one) => asked.ask(one, signal)));
    }
  }
}

/** Of one pod. What is beyond them counts as missing: whoever makes pods must not make us flood the API server. */
const maxRequests = 64;

/** The reflectors' knowledge, and the API server's answers about the rest. */
class Asked implements Known {
  readonly #options: FactsOptions;
  readonly #answers = new Map<string, unknown>();
  /** Requests that may still be made. */
  left = maxRequests;

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

  async ask({ kind, key }: Missing, signal: AbortSignal): Promise<void> {
    this.left -= 1;
    this.#answers.set(`${kind} ${key}`, await this.#get(kind, key, signal));
  }

  /** Objects that were not there are asked for again. */
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
