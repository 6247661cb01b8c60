import { epochMs, HearthError } from '@hearth/common';
import { z } from 'zod';
import type { AgentContext } from '../context.ts';
import { RecordTable } from '../records/index.ts';

/** `seen/<node>`: when an agent with mounts was last alive, milliseconds since the epoch by the agent's clock. */
export const seenSchema = z.object({ node: z.string(), at: z.int() });

/**
 * Tells temporarily absent agents from agents that will not come back: holders keep the mounts of the former, and the
 * mounts of the latter went with their nodes.
 */
export class DepartedNodes {
  readonly #context: AgentContext;
  readonly #table;
  #cancel: (() => void) | undefined;
  #writing: Promise<void> = Promise.resolve();

  constructor(context: AgentContext) {
    this.#context = context;
    this.#table = new RecordTable(context.store, 'seen/', seenSchema);
  }

  /** Records this agent as alive periodically until `close`. A repeated call records it once more at once. */
  startHeartbeat(): void {
    this.#note();
    const { clock, timings } = this.#context;
    this.#cancel ??= clock.every(timings.seenMs, () => this.#note());
  }

  async close(): Promise<void> {
    this.#cancel?.();
    await this.#writing;
  }

  /**
   * The given nodes whose agents will not come back: not seen for the configured time, or not among `present`, all
   * nodes known to the caller.
   */
  async among(nodes: Iterable<string>, present?: ReadonlySet<string>): Promise<Set<string>> {
    const alive = this.#context.members.names();
    const away = [...new Set(nodes)].filter((node) => !alive.has(node));
    if (away.length === 0) return new Set();
    const { rows } = await this.#table.list((error) =>
      this.#context.logger.error('ignoring a malformed record', { error }),
    );
    const before = epochMs(this.#context.clock) - this.#context.timings.departedMs;
    const unseen = new Set(rows.filter(({ value }) => value.at < before).map(({ value }) => value.node));
    return new Set(away.filter((node) => unseen.has(node) || present?.has(node) === false));
  }

  #note(): void {
    const { node, clock, logger } = this.#context;
    this.#writing = this.#writing
      .then(async () => void (await this.#table.put(node, { node, at: epochMs(clock) })))
      .catch((thrown) =>
        logger.debug('failed to write the heartbeat of this agent to the store', { error: HearthError.from(thrown) }),
      );
  }
}
