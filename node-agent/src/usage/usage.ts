import { HearthError } from '@hearth/common';
import { z } from 'zod';
import type { AgentContext } from '../context.ts';
import type { DatasetTables } from '../datasets/table.ts';
import { Mirror, RecordTable } from '../records/index.ts';

/** `usage/<dataset>`: when any agent last used it, milliseconds since the epoch, coarse. */
const usageSchema = z.object({ dataset: z.string(), usedAt: z.number() });

/**
 * Last use of datasets in the cluster, told to every engine, so that the holders of a dataset that is spread over
 * several agents evict it together. A use is a mount, a warm job or a read through the control API.
 */
export class LastUse {
  readonly #context: AgentContext;
  readonly #datasets: DatasetTables;
  readonly #table;
  readonly #mirror;
  readonly #used = new Map<string, number>();
  readonly #timer: NodeJS.Timeout;
  #turn: Promise<void> | undefined;

  constructor(context: AgentContext, datasets: DatasetTables) {
    this.#context = context;
    this.#datasets = datasets;
    this.#table = new RecordTable(context.store, 'usage/', usageSchema);
    this.#mirror = new Mirror(this.#table, context.logger);
    this.#mirror.onChange((changes) => {
      for (const { after } of changes) if (after !== undefined) this.#tell(after.dataset, after.usedAt);
    });
    datasets.mirror.onChange((changes) => {
      for (const { id } of changes) this.#tell(id, this.#mirror.get(id)?.usedAt ?? 0);
    });
    this.#timer = setInterval(() => this.#begin(), context.pace.lastUseMs);
  }

  /** A use now, on this agent. Cheap; written with the next turn. */
  note(dataset: string): void {
    this.#used.set(dataset, Date.now());
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#turn;
    await this.#mirror.close();
  }

  #tell(dataset: string, usedAt: number): void {
    const manifest = this.#datasets.mirror.get(dataset)?.manifest;
    if (manifest !== undefined && manifest !== '' && usedAt > 0) this.#context.engine.setLastUse(manifest, usedAt);
  }

  #begin(): void {
    this.#turn ??= this.#publish()
      .catch((thrown) =>
        this.#context.logger.debug('last use could not be published', { error: HearthError.from(thrown) }),
      )
      .finally(() => {
        this.#turn = undefined;
      });
  }

  async #publish(): Promise<void> {
    for (const mount of await this.#context.engine.mounts()) {
      const dataset = this.#datasets.revisionOf(mount.manifest)?.dataset;
      if (dataset !== undefined) this.note(dataset);
    }
    for (const [dataset, usedAt] of [...this.#used]) {
      // Agents that use a dataset at the same time would write the same: one record in the pace's time is enough.
      const known = this.#mirror.get(dataset)?.usedAt ?? 0;
      if (this.#datasets.mirror.get(dataset) !== undefined && usedAt - known >= this.#context.pace.lastUseMs / 2) {
        await this.#table.update(dataset, (present) =>
          (present?.usedAt ?? 0) >= usedAt ? undefined : { dataset, usedAt },
        );
      }
      if (this.#used.get(dataset) === usedAt) this.#used.delete(dataset);
    }
  }
}
