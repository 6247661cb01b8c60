import { HearthError, RecurringWork } from '@hearth/common';
import type { AgentContext } from '../context.ts';
import type { OwnStatistics } from './own_statistics.ts';
import { lacksReports, statisticsTable } from './record.ts';

/**
 * While an agent without the feature `node-reports` is a member, writes this agent's figures to the store, where that
 * agent looks for them; deletes them when the last such agent has gone. A cluster of one release writes nothing.
 */
export class EarlierReleases {
  readonly #context: AgentContext;
  readonly #own: OwnStatistics;
  readonly #table;
  readonly #turns: RecurringWork;
  readonly #off: () => void;
  /** The record in the store; empty: none. */
  #written = '';

  constructor(context: AgentContext, own: OwnStatistics) {
    this.#context = context;
    this.#own = own;
    this.#table = statisticsTable(context.store);
    this.#turns = new RecurringWork(context.clock, context.timings.earlierReleasesMs, () => this.#turn());
    this.#off = context.session.onLost(() => {
      this.#written = '';
    });
    this.#turns.begin();
  }

  async close(): Promise<void> {
    this.#off();
    await this.#turns.close();
  }

  async #turn(): Promise<void> {
    try {
      if (this.#context.members.all().some(lacksReports)) await this.#write();
      else if (this.#written !== '') await this.#delete();
    } catch (thrown) {
      const error = HearthError.from(thrown);
      this.#context.logger.debug('failed to write statistics for agents of an earlier release', { error });
    }
  }

  async #write(): Promise<void> {
    const { current } = this.#own;
    if (current === undefined) return;
    const text = this.#table.encode(current);
    if (text === this.#written) return;
    await this.#table.put(this.#context.node, current, { lease: await this.#context.session.lease() });
    this.#written = text;
  }

  async #delete(): Promise<void> {
    await this.#table.delete(this.#context.node);
    this.#written = '';
  }
}
