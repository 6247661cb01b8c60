import { type Clock, HearthError, type Logger, sleep, systemClock } from '@hearth/common';
import type { Compare, Operation, Store } from '../store/index.ts';
import type { Session } from './session.ts';

export interface ElectionOptions {
  store: Store;
  session: Session;
  logger: Logger;
  key: string;
  node: string;
  retryMs: number;
  clock?: Clock;
}

/**
 * Elects one leader among agents: the leader holds a key under its session's lease. `write` compares that key in the
 * same transaction, so a leader that was suspended and replaced cannot write any more. Between elections every agent
 * waits for the end of the key by a watch, so that a thousand agents ask the store for nothing.
 */
export class Election {
  readonly #store: Store;
  readonly #session: Session;
  readonly #logger: Logger;
  readonly #key: string;
  readonly #node: string;
  readonly #retryMs: number;
  readonly #clock: Clock;
  readonly #stop = new AbortController();
  readonly #ended: Promise<void>;
  #wonAt: number | undefined;

  constructor(options: ElectionOptions) {
    this.#store = options.store;
    this.#session = options.session;
    this.#logger = options.logger;
    this.#key = options.key;
    this.#node = options.node;
    this.#retryMs = options.retryMs;
    this.#clock = options.clock ?? systemClock;
    this.#session.onLost(() => {
      this.#wonAt = undefined;
    });
    this.#ended = this.#run();
  }

  get leading(): boolean {
    return this.#wonAt !== undefined && this.#session.alive;
  }

  /** Writes if still leading; returns true if written. `compare`: further conditions. */
  async write(operations: Operation[], compare: Compare[] = []): Promise<boolean> {
    if (this.#wonAt === undefined) return false;
    const leading: Compare = { key: this.#key, createRevision: this.#wonAt };
    const result = await this.#store.transact({ compare: [leading, ...compare], success: operations });
    return result.succeeded;
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#ended;
    if (this.#wonAt === undefined) return;
    await this.write([{ kind: 'delete', key: this.#key }]).catch(() => false);
    this.#wonAt = undefined;
  }

  async #run(): Promise<void> {
    const signal = this.#stop.signal;
    while (!signal.aborted) {
      try {
        const revision = await this.#campaign(signal);
        if (revision !== undefined) await this.#untilChanged(revision, signal);
      } catch (thrown) {
        if (signal.aborted) return;
        this.#logger.debug('failed to take part in the election', { error: HearthError.from(thrown) });
      }
      await sleep(this.#clock, this.#retryMs * (0.5 + this.#clock.random()), signal);
    }
  }

  /** Takes the key when it is free. Returns the revision of the key, its owner's or the own; undefined: ask again. */
  async #campaign(signal: AbortSignal): Promise<number | undefined> {
    const lease = await this.#session.lease(signal);
    const present = await this.#store.get(this.#key, { signal });
    if (present !== undefined) {
      // The key may be ours although the answer to the writing transaction was lost.
      this.#wonAt = present.lease === lease ? present.createRevision : undefined;
      return present.modRevision;
    }
    this.#wonAt = undefined;
    const put: Operation = { kind: 'put', key: this.#key, value: JSON.stringify({ node: this.#node }), lease };
    const result = await this.#store.transact(
      { compare: [{ key: this.#key, exists: false }], success: [put] },
      { signal },
    );
    if (!result.succeeded) return undefined;
    this.#wonAt = result.revision;
    this.#logger.info('this agent was elected leader of the agents', { key: this.#key });
    return result.revision;
  }

  /** Waits for a change of the key after `revision`, or until the store cannot tell. */
  async #untilChanged(revision: number, signal: AbortSignal): Promise<void> {
    for await (const item of this.#store.watch(this.#key, revision + 1, { signal })) {
      if (item.kind === 'compacted' || item.events.length > 0) return;
    }
  }
}
