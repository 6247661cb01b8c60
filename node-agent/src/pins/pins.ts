import { HearthError } from '@hearth/common';
import { z } from 'zod';
import type { AgentContext } from '../context.ts';
import { chooseFiles } from '../datasets/files.ts';
import type { ManifestKeeper } from '../datasets/keeper.ts';
import { Mirror, RecordTable } from '../records/index.ts';

/** `pins/<node>/<dataset>/<owner>`: what an agent keeps whatever else needs room. */
export const pinSchema = z.object({
  node: z.string(),
  dataset: z.string(),
  manifest: z.string(),
  paths: z.array(z.string()),
  owner: z.string(),
});
export type PinRecord = z.output<typeof pinSchema>;

/**
 * The pins of this agent. The engine forgets pins when it ends; the store keeps them, and they are set again
 * at the start, each as soon as its manifest is there.
 */
export class Pins {
  readonly #context: AgentContext;
  readonly #keeper: ManifestKeeper;
  readonly #table;
  readonly #mirror;
  readonly #stop = new AbortController();
  /** What this agent has pinned, by id. */
  readonly #own = new Map<string, PinRecord>();
  #restoring: Promise<unknown> = Promise.resolve();

  constructor(context: AgentContext, keeper: ManifestKeeper) {
    this.#context = context;
    this.#keeper = keeper;
    this.#table = new RecordTable(context.store, 'pins/', pinSchema);
    this.#mirror = new Mirror(this.#table, context.logger);
  }

  /** Sets the pins that the store has for this agent. Resolves when the pins are known, not when all are set. */
  async restore(signal: AbortSignal): Promise<void> {
    await this.#mirror.ready(signal);
    const mine = this.#mirror.values().filter((pin) => pin.node === this.#context.node);
    for (const pin of mine) this.#own.set(idOf(pin), pin);
    this.#restoring = Promise.all(
      mine.map(async (pin) => {
        try {
          await this.#set(pin, this.#stop.signal);
        } catch (thrown) {
          if (this.#stop.signal.aborted) return;
          this.#context.logger.error('a pin could not be set again', {
            dataset: pin.dataset,
            owner: pin.owner,
            error: HearthError.from(thrown),
          });
        }
      }),
    );
  }

  /** Pins here: first in the engine, so that the record never promises what is not so. */
  async pin(pin: Omit<PinRecord, 'node'>, signal: AbortSignal): Promise<void> {
    const record = { ...pin, node: this.#context.node };
    await this.#set(record, signal);
    await this.#table.put(idOf(record), record, { signal });
    this.#own.set(idOf(record), record);
  }

  /** Writes the records of all pins of this agent again, as after the store was emptied. */
  async rewrite(): Promise<void> {
    for (const [id, pin] of [...this.#own]) await this.#table.put(id, pin);
  }

  /** No error when it is not pinned by this owner. */
  async unpin(dataset: string, owner: string): Promise<void> {
    const id = idOf({ node: this.#context.node, dataset, owner });
    const row = await this.#table.read(id);
    if (row === undefined) return;
    this.#own.delete(id);
    await this.#table.delete(id);
    await this.#context.engine.unpin(row.value.manifest, owner);
  }

  /** Everybody's pins of a dataset. */
  of(dataset: string): PinRecord[] {
    return this.#mirror.values().filter((pin) => pin.dataset === dataset);
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#restoring;
    await this.#mirror.close();
  }

  async #set(pin: PinRecord, signal: AbortSignal): Promise<void> {
    await this.#keeper.opened(pin.manifest, signal);
    const dataset = { name: pin.dataset, manifest: pin.manifest, bytes: 0n };
    const { entries } = await chooseFiles(this.#context.engine, dataset, pin.paths);
    await this.#context.engine.pin(pin.manifest, entries, pin.owner);
  }
}

function idOf(pin: Pick<PinRecord, 'node' | 'dataset' | 'owner'>): string {
  return `${pin.node}/${pin.dataset}/${pin.owner}`;
}
