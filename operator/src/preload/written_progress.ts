import type { CachePreload } from '@hearth/common/resources';
import { WrittenFigures } from '../reconciler/index.ts';

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
  readonly #written: WrittenFigures<CachePreload>;
  #moving = { count: 0, at: Number.NEGATIVE_INFINITY };

  /** `now`: milliseconds since the epoch. */
  constructor(now: () => number) {
    this.#now = now;
    this.#written = new WrittenFigures(now, writtenProgress);
  }

  /** Milliseconds for which the figures in the status shall stay. Notices writes by the status given. */
  holdMs(preload: CachePreload): number {
    const rows = preload.status?.nodes?.length ?? 0;
    const ofMoving = (this.#countMoving() / maxWrites) * 1000;
    const ofRows = Math.min(restMs, (rows / maxRows) * 1000);
    return this.#written.holdMs(preload, Math.max(intervalMs, ofMoving, ofRows));
  }

  forget(key: string): void {
    this.#written.forget(key);
  }

  /** Counted once a second. */
  #countMoving(): number {
    const now = this.#now();
    if (now - this.#moving.at >= intervalMs) this.#moving = { count: this.#written.countSince(restMs), at: now };
    return this.#moving.count;
  }
}

function writtenProgress({ status = {} }: CachePreload): string {
  const { bytesReady, bytesInMemory, bytesVerified, bytesPerSecond, secondsLeft } = status;
  return [bytesReady, bytesInMemory, bytesVerified, bytesPerSecond, secondsLeft].join();
}
