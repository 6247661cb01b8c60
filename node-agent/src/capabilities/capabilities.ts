import { type Clock, HearthError, type Logger, RecurringWork, systemClock } from '@hearth/common';
import type { Probe } from '@hearth/engine';
import { budgetProbe } from '../cache/index.ts';
import type { AgentConfig } from '../config/index.ts';
import { nativeProbes } from './probe.ts';
import { type Capability, readCapabilities } from './read.ts';

/** Looks at the machine; takes seconds. */
export type ProbeMachine = (signal: AbortSignal) => Promise<Probe[]>;

/**
 * The capabilities of this machine, probed in the background when the agent starts and every so often. When a probe
 * fails, the former result stands.
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

  /** Empty until the first look has ended. */
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

/** Looks at the machine of an agent by hearth-probe, with the cache directories of the agent, and at their budgets. */
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
