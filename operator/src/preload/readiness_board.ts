import { isDeepStrictEqual } from 'node:util';
import type { NodeReadiness, Readiness } from './board.ts';

/** What the executor has found out last of each CachePreload. */
export class ReadinessBoard implements Readiness {
  readonly #known = new Map<string, ReadonlyMap<string, NodeReadiness>>();
  readonly #listeners = new Set<(key: string) => void>();

  of(key: string): ReadonlyMap<string, NodeReadiness> | undefined {
    return this.#known.get(key);
  }

  onChange = (listener: (key: string) => void): (() => void) => {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  };

  /** Undefined: it is gone, or nothing is known of it any more. */
  set(key: string, nodes: ReadonlyMap<string, NodeReadiness> | undefined): void {
    if (isDeepStrictEqual(this.#known.get(key), nodes)) return;
    if (nodes === undefined) this.#known.delete(key);
    else this.#known.set(key, nodes);
    for (const listener of this.#listeners) listener(key);
  }

  /** Another replica leads: what is known here will be too old. */
  clear(): void {
    for (const key of [...this.#known.keys()]) this.set(key, undefined);
  }
}
