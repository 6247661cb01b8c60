import { type Clock, HearthError, type Logger, RecurringWork } from '@hearth/common';
import type { Store, StoreSpace } from './store.ts';

export interface StoreGuardOptions {
  store: Store;
  /** True when the store is Hearth's own: its history may be deleted. Others are only reported on. */
  owned: boolean;
  /** True for the agent that does this for all; the others look rarely, since a full store elects nobody. */
  leading: () => boolean;
  logger: Logger;
  clock: Clock;
  intervalMs: number;
}

/** A store this full is compacted at each look, which stops its growth. */
const compactShare = 1 / 4;
/** From this share on a person should look. */
const warnShare = 1 / 2;
/** Agents that do not lead look once in so many intervals, at random. */
const rarely = 10;
const reclaimMs = 60_000;

/**
 * Keeps the store from filling up, as etcd refuses all writes at its quota: compacts it by size, beside its own
 * compaction by time, and frees one that is full.
 */
export class StoreGuard {
  readonly #options: StoreGuardOptions;
  readonly #turns: RecurringWork;
  #space: StoreSpace | undefined;
  /** The newest revision at the last look. History after it stays, for watches that lag. */
  #revision: number | undefined;

  constructor(options: StoreGuardOptions) {
    this.#options = options;
    this.#turns = new RecurringWork(options.clock, options.intervalMs, () => this.#look());
  }

  /** What a person should know of the store, as a capability; none where another agent reports. */
  capabilities(): { name: string; ready: boolean; reason: string }[] {
    if (this.#space === undefined) return [];
    const { full, bytes, quotaBytes } = this.#space;
    const filling = full || bytes >= quotaBytes * warnShare;
    const sizes = `the store uses ${mebibytes(bytes)} of its quota of ${mebibytes(quotaBytes)}`;
    const reason = full ? `${sizes} and refuses all writes` : `${sizes}; when it is full, it refuses all writes`;
    return [{ name: 'store-space', ready: !filling, reason: filling ? reason : '' }];
  }

  async close(): Promise<void> {
    await this.#turns.close();
  }

  async #look(): Promise<void> {
    const { store, leading, clock, logger } = this.#options;
    if (store.maintenance === undefined) return;
    if (!leading() && clock.random() >= 1 / rarely) {
      this.#space = undefined;
      return;
    }
    try {
      this.#space = await store.maintenance.space();
      await this.#defend(this.#space);
      if (!leading()) this.#space = undefined;
    } catch (thrown) {
      logger.warn('failed to look after the space of the store', { error: HearthError.from(thrown) });
    }
  }

  async #defend({ full, bytes, quotaBytes }: StoreSpace): Promise<void> {
    const { store, owned, logger } = this.#options;
    if (!owned) return;
    if (full) {
      logger.error('the store is full; reclaiming its space', { bytes, quotaBytes });
      await store.maintenance?.reclaim({ deadlineMs: reclaimMs });
      logger.info('reclaimed the space of the store; it takes writes again');
      return;
    }
    if (bytes < quotaBytes * compactShare) {
      this.#revision = undefined;
      return;
    }
    if (this.#revision !== undefined) await store.compact(this.#revision);
    this.#revision = await store.revision();
  }
}

const mebibytes = (bytes: number) => `${Math.round(bytes / 2 ** 20)} MiB`;
