import { type KubernetesObject, objectKey } from '@hearth/common/kubernetes';

/** Limits writes of changing figures, so that progress of hundreds of objects does not flood the API server. */
export class WrittenFigures<T extends KubernetesObject> {
  readonly #now: () => number;
  readonly #figuresOf: (object: T) => string;
  readonly #written = new Map<string, { figures: string; at: number }>();

  /** `now`: milliseconds since the epoch. `figuresOf`: the figures of a status as one text. */
  constructor(now: () => number, figuresOf: (object: T) => string) {
    this.#now = now;
    this.#figuresOf = figuresOf;
  }

  /** How long the figures in the status stay, with this pause between writes, ms. Learns of writes from the status. */
  holdMs(object: T, pauseMs: number): number {
    const key = objectKey(object);
    const figures = this.#figuresOf(object);
    const known = this.#written.get(key);
    if (known?.figures === figures) return Math.max(0, known.at + pauseMs - this.#now());
    // The first look at an object is no write.
    this.#written.set(key, { figures, at: known === undefined ? Number.NEGATIVE_INFINITY : this.#now() });
    return known === undefined ? 0 : pauseMs;
  }

  forget(key: string): void {
    this.#written.delete(key);
  }

  countSince(ms: number): number {
    return [...this.#written.values()].filter(({ at }) => this.#now() - at < ms).length;
  }
}

const firstMs = 2_000;
const longestMs = 300_000;

/** The delay after this many failures in a row outside of Kubernetes, ms: 2 s, doubled each time, at most 5 min. */
export function retryDelayMs(failures: number): number {
  return Math.min(longestMs, firstMs * 2 ** Math.min(30, failures - 1));
}
