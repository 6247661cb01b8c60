import { HearthError, RecurringWork } from '@hearth/common';
import type { AgentContext } from '../context.ts';

export interface HolderCapability {
  name: 'holder';
  /** True when the holder was built together with this agent. */
  ready: boolean;
  reason: string;
}

/**
 * Periodically asks this node's holder for its release. The holder is replaced less often than the agent and may be
 * older, which is reported as a capability. A holder of another release with an equal program is not older.
 */
export class HolderWatch {
  readonly #context: AgentContext;
  readonly #socket: string;
  readonly #probes: RecurringWork;
  #seen: HolderCapability | undefined;

  constructor(context: AgentContext, socket: string) {
    this.#context = context;
    this.#socket = socket;
    this.#probes = new RecurringWork(context.clock, context.timings.publishedScanMs, () => this.#probe());
    this.#probes.begin();
  }

  /** Empty while no holder answers, because views need none. */
  capabilities(): HolderCapability[] {
    return this.#seen === undefined ? [] : [this.#seen];
  }

  async close(): Promise<void> {
    await this.#probes.close();
  }

  async #probe(): Promise<void> {
    try {
      const { release, expected, missing } = await this.#context.engine.holder(this.#socket);
      const ready = release === expected;
      const lacks = missing === '' ? '' : ` and lacks ${missing}`;
      const reason = ready
        ? `release ${release}`
        : `the mount holder is of release ${release}${lacks}, its agent comes with ${expected}. Replace it while the agent runs: delete its pod, or start hearth-holder --take-over`;
      this.#seen = { name: 'holder', ready, reason };
    } catch (thrown) {
      this.#seen = undefined;
      this.#context.logger.debug('the mount holder does not answer', { error: HearthError.from(thrown) });
    }
  }
}
