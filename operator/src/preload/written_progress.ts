import type { CachePreload } from '@hearth/common/resources';
import { WrittenFigures } from '../reconciler/index.ts';

/** The least time between two writes of one status, ms. */
const intervalMs = 1_000;
/** Writes a second of all CachePreloads with changing figures. */
const maxWrites = 50;
/** Rows of nodes a second, since the API server keeps each version of a status for minutes. */
const maxRows = 100;
/** A CachePreload without a write for this time is idle, ms. */
const idleMs = 10_000;

export class WrittenProgress {
  readonly #now: () => number;
  readonly #written: WrittenFigures<CachePreload>;
  #moving = { count: 0, at: Number.NEGATIVE_INFINITY };

  constructor(now: () => number) {
    this.#now = now;
    this.#written = new WrittenFigures(now, writtenProgress);
  }

  /** How long the figures in the status stay as they are, ms. Learns of writes from the status. */
  holdMs(preload: CachePreload): number {
    const rows = preload.status?.nodes?.length ?? 0;
    const ofMoving = (this.#countMoving() / maxWrites) * 1000;
    const ofRows = Math.min(idleMs, (rows / maxRows) * 1000);
    return this.#written.holdMs(preload, Math.max(intervalMs, ofMoving, ofRows));
  }

  forget(key: string): void {
    this.#written.forget(key);
  }

  #countMoving(): number {
    const now = this.#now();
    if (now - this.#moving.at >= intervalMs) this.#moving = { count: this.#written.countSince(idleMs), at: now };
    return this.#moving.count;
  }
}

function writtenProgress({ status = {} }: CachePreload): string {
  const { bytesReady, bytesInMemory, bytesVerified, bytesPerSecond, secondsLeft } = status;
  return [bytesReady, bytesInMemory, bytesVerified, bytesPerSecond, secondsLeft].join();
}
