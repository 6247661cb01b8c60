import { type KubernetesObject, objectKey } from '@hearth/common/kubernetes';

/**
 * When the figures that change all the time were written last, object by object. Hundreds of objects whose bytes arrive
 * would else have the API server busy with nothing but their progress.
 */
export class WrittenFigures<T extends KubernetesObject> {
  readonly #now: () => number;
  readonly #figuresOf: (object: T) => string;
  readonly #written = new Map<string, { figures: string; at: number }>();

  /** `now`: milliseconds since the epoch. `figuresOf`: the figures in the status of an object, as one text. */
  constructor(now: () => number, figuresOf: (object: T) => string) {
    this.#now = now;
    this.#figuresOf = figuresOf;
  }

  /** Milliseconds for which the figures in the status shall stay, with this pause between writes. Notices writes. */
  holdMs(object: T, pauseMs: number): number {
    const key = objectKey(object);
    const figures = this.#figuresOf(object);
    const known = this.#written.get(key);
    if (known?.figures === figures) return Math.max(0, known.at + pauseMs - this.#now());
    // The first sight of an object is not a write of it.
    this.#written.set(key, { figures, at: known === undefined ? Number.NEGATIVE_INFINITY : this.#now() });
    return known === undefined ? 0 : pauseMs;
  }

  forget(key: string): void {
    this.#written.delete(key);
  }

  /** How many objects had their figures written within this time, milliseconds. */
  countSince(ms: number): number {
    return [...this.#written.values()].filter(({ at }) => this.#now() - at < ms).length;
  }
}
