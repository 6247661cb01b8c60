import { objectKey } from '@hearth/common/kubernetes';
import type { CachePreload } from '@hearth/common/resources';

/** Between two writes of figures that change all the time, milliseconds. */
const intervalMs = 1_000;
/** Many CachePreloads that move at the same time make at most so many writes a second together. */
const maxWrites = 50;
/** A status has a row a node, and the API server keeps each of its versions for a while: at most so many rows a second. */
const maxRows = 100;
/** One whose figures were not written for so long does not move. */
const restMs = 10_000;

/** When the figures of CachePreloads were written last: each is sent to the API server once a second at most. */
export class WrittenProgress {
  readonly #now: () => number;
  readonly #written = new Map<string, { text: string; at: number }>();
  #moving = { count: 0, at: Number.NEGATIVE_INFINITY };

  /** `now`: milliseconds since the epoch. */
  constructor(now: () => number) {
    this.#now = now;
  }

  /** Milliseconds for which the figures in the status shall stay. Notices writes by the status given. */
  holdMs(preload: CachePreload): number {
    const key = objectKey(preload);
    const { bytesReady, bytesInMemory, bytesVerified, bytesPerSecond, secondsLeft, nodes = [] } = preload.status ?? {};
    const text = [bytesReady, bytesInMemory, bytesVerified, bytesPerSecond, secondsLeft].join();
    const known = this.#written.get(key);
    const pauseMs = Math.max(
      intervalMs,
      (this.#countMoving() / maxWrites) * 1000,
      Math.min(restMs, (nodes.length / maxRows) * 1000),
    );
    if (known?.text === text) return Math.max(0, known.at + pauseMs - this.#now());
    // The first sight of a CachePreload is not a write of it.
    this.#written.set(key, { text, at: known === undefined ? Number.NEGATIVE_INFINITY : this.#now() });
    return known === undefined ? 0 : pauseMs;
  }

  forget(key: string): void {
    this.#written.delete(key);
  }

  /** Counted once a second. */
  #countMoving(): number {
    const now = this.#now();
    if (now - this.#moving.at < intervalMs) return this.#moving.count;
    let count = 0;
    for (const { at } of this.#written.values()) if (now - at < restMs) count += 1;
    this.#moving = { count, at: now };
    return count;
  }
}
