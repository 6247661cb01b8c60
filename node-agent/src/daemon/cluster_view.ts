import { HearthError, type Logger } from '@hearth/common';
import type { Engine } from '@hearth/engine';
import type { Membership } from '../membership/index.ts';

/**
 * Passes the cluster's members to the engine: the current view first, then the latest view after changes, one at a
 * time.
 */
export class ClusterView {
  readonly #engine: Engine;
  readonly #membership: Membership;
  readonly #logger: Logger;
  readonly #off: () => void;
  #turn: Promise<void> | undefined;
  #stale = false;

  constructor(engine: Engine, membership: Membership, logger: Logger) {
    this.#engine = engine;
    this.#membership = membership;
    this.#logger = logger;
    this.#off = membership.onChange(() => this.refresh());
  }

  refresh(): void {
    this.#stale = true;
    this.#turn ??= this.#push().finally(() => {
      this.#turn = undefined;
    });
  }

  /** Waits until the engine has the current view. */
  async settled(): Promise<void> {
    await this.#turn;
  }

  async close(): Promise<void> {
    this.#off();
    await this.#turn;
  }

  async #push(): Promise<void> {
    while (this.#stale) {
      this.#stale = false;
      try {
        await this.#engine.setCluster(this.#membership.cluster());
      } catch (thrown) {
        this.#logger.error('the engine rejected the cluster view', { error: HearthError.from(thrown) });
      }
    }
  }
}
