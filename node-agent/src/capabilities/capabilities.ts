import { type Clock, HearthError, type Logger, RecurringWork, systemClock } from '@hearth/common';
import type { Probe } from '@hearth/engine';
import { budgetProbe } from '../cache/index.ts';
import type { AgentConfig } from '../config/index.ts';
import { nativeProbes } from './probe.ts';
import { type Capability, readCapabilities } from './read.ts';

/** Probes the machine; takes seconds. */
export type ProbeMachine = (signal: AbortSignal) => Promise<Probe[]>;

/**
 * Capabilities of this machine, probed in the background at the start and periodically. A failed probe keeps the
 * previous result.
 */
export class Capabilities {
  readonly #probe: ProbeMachine;
  readonly #logger: Logger;
  readonly #stop = new AbortController();
  readonly #looks: RecurringWork;
  #seen: Capability[] = [];

  constructor(probe: ProbeMachine, everyMs: number, logger: Logger, clock: Clock = systemClock) {
    this.#probe = probe;
    this.#logger = logger;
    this.#looks = new RecurringWork(clock, everyMs, () => this.#look());
    this.#looks.begin();
  }

  /** Empty until the first probe has ended. */
  all(): Capability[] {
    return this.#seen;
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#looks.close();
  }

  async #look(): Promise<void> {
    try {
      this.#seen = readCapabilities(await this.#probe(this.#stop.signal));
    } catch (thrown) {
      if (this.#stop.signal.aborted) return;
      const error = HearthError.from(thrown);
      this.#logger.warn('failed to probe a capability', { error });
      if (this.#seen.length > 0) return;
      this.#seen = readCapabilities([]).map((one) => ({ ...one, reason: error.message }));
    }
  }
}

/** Drivers of eight GPUs take seconds to answer. */
const deadlineSeconds = 30;

/** A probe of the machine by hearth-probe with the agent's cache directories, and of their budgets. */
export function machineProbe(
  config: AgentConfig,
  environment: Readonly<Record<string, string | undefined>>,
): ProbeMachine {
  const directories = config.cache.directories.map((directory) => directory.path);
  return async (signal) => {
    const native = await nativeProbes({ environment, directories, deadlineSeconds, signal });
    return [...native, await budgetProbe(config.cache.directories)];
  };
}
