import { objectKey } from '@hearth/common/kubernetes';
import type { CachePreload } from '@hearth/common/resources';

/** Between two writes of figures that change all the time, milliseconds. */
const intervalMs = 1_000;

/** When the figures of CachePreloads were written last: the API server is told once a second at most. */
export class WrittenProgress {
  readonly #now: () => number;
  readonly #written = new Map<string, { text: string; at: number }>();

  /** `now`: milliseconds since the epoch. */
  constructor(now: () => number) {
    this.#now = now;
  }

  /** Milliseconds for which the figures in the status shall stay. Notices writes by the status given. */
  holdMs(preload: CachePreload): number {
    const key = objectKey(preload);
    const { bytesReady, bytesVerified, bytesPerSecond, secondsLeft } = preload.status ?? {};
    const text = [bytesReady, bytesVerified, bytesPerSecond, secondsLeft].join();
    const known = this.#written.get(key);
    if (known?.text === text) return Math.max(0, known.at + intervalMs - this.#now());
    this.#written.set(key, { text, at: this.#now() });
    // The first sight of a CachePreload is not a write of it.
    return known === undefined ? 0 : intervalMs;
  }

  forget(key: string): void {
    this.#written.delete(key);
  }
}
