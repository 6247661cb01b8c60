import { HearthError, type Logger } from '@hearth/common';
import type { Probe } from '@hearth/engine';
import { type Capability, readCapabilities } from './read.ts';

/** Looks at the machine; takes seconds. */
export type ProbeMachine = (signal: AbortSignal) => Promise<Probe[]>;

/**
 * What this machine offers, looked at in the background when the agent starts and every so often. While it cannot be
 * looked at, what was seen before stands.
 */
export class Capabilities {
  readonly #probe: ProbeMachine;
  readonly #logger: Logger;
  readonly #stop = new AbortController();
  readonly #timer: NodeJS.Timeout;
  #seen: Capability[] = [];
  #turn: Promise<void> | undefined;

  constructor(probe: ProbeMachine, everyMs: number, logger: Logger) {
    this.#probe = probe;
    this.#logger = logger;
    this.#timer = setInterval(() => this.#begin(), everyMs);
    this.#begin();
  }

  /** Empty until the first look has ended. */
  all(): Capability[] {
    return this.#seen;
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    this.#stop.abort();
    await this.#turn;
  }

  #begin(): void {
    this.#turn ??= this.#look().finally(() => {
      this.#turn = undefined;
    });
  }

  async #look(): Promise<void> {
    try {
      this.#seen = readCapabilities(await this.#probe(this.#stop.signal));
    } catch (thrown) {
      if (this.#stop.signal.aborted) return;
      const error = HearthError.from(thrown);
      this.#logger.warn('capability probe failed', { error });
      if (this.#seen.length > 0) return;
      this.#seen = readCapabilities([]).map((one) => ({ ...one, reason: error.message }));
    }
  }
}
