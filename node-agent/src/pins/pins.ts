import { isDeepStrictEqual } from 'node:util';
import { HearthError } from '@hearth/common';
import type { AgentContext } from '../context.ts';
import { chooseFiles, type ManifestKeeper } from '../datasets/index.ts';
import { type Change, Mirror, RecordTable } from '../records/index.ts';
import type { Operation } from '../store/index.ts';
import { type PinRecord, pinId, pinSchema } from './record.ts';

/** Maximum number of records deleted in one transaction. */
const maxDeletions = 100;

interface OwnPin {
  record: PinRecord;
  /** True once the engine holds the pin; after a restart that waits for the manifest. */
  held: boolean;
  /** Revision of the record in the store; infinite while it is being written. */
  writtenAt: number;
}

/**
 * The pins of this agent. The engine forgets pins when it ends; the store keeps them, and a restarted agent sets each
 * again once its manifest is open. Deleting a record releases the pin: this agent notices through its mirror, or finds
 * no record at its next start.
 */
export class Pins {
  readonly #context: AgentContext;
  readonly #keeper: ManifestKeeper;
  readonly #table;
  readonly #mirror;
  readonly #stop = new AbortController();
  /** This agent's own pins, by id. */
  readonly #own = new Map<string, OwnPin>();
  readonly #cancels = new Set<() => void>();
  #restoring: Promise<unknown> = Promise.resolve();

  constructor(context: AgentContext, keeper: ManifestKeeper) {
    this.#context = context;
    this.#keeper = keeper;
    this.#table = new RecordTable(context.store, 'pins/', pinSchema);
    this.#mirror = new Mirror(this.#table, context.logger);
    this.#mirror.onChange((changes, { reread }) => this.#changed(changes, reread));
  }

  /** Sets the pins that the store has for this agent. Resolves when the pins are known, before all are set. */
  async restore(signal: AbortSignal): Promise<void> {
    await this.#mirror.ready(signal);
    const mine = this.#mirror.rows().filter(({ value }) => value.node === this.#context.node);
    for (const { id, value, modRevision } of mine) {
      this.#own.set(id, { record: value, held: false, writtenAt: modRevision });
    }
    this.#restoring = Promise.all(
      mine.map(async ({ id, value }) => {
        try {
          await this.#set(value, this.#stop.signal);
          const own = this.#own.get(id);
          if (own !== undefined) own.held = true;
          else await this.#context.engine.unpin(value.manifest, engineOwner(value));
        } catch (thrown) {
          if (this.#stop.signal.aborted) return;
          this.#context.logger.error('failed to set a pin again', {
            dataset: value.dataset,
            owner: value.owner,
            error: HearthError.from(thrown),
          });
        }
      }),
    );
  }

  /** Pins in the engine first, so that the record never promises a pin that does not exist. */
  async pin({ owner, ...pin }: Omit<PinRecord, 'node'>, signal: AbortSignal): Promise<void> {
    await this.pinWith(pin, [owner], signal, async (operations) => {
      const { revision } = await this.#context.store.transact({ compare: [], success: operations }, { signal });
      return revision;
    });
  }

  /**
   * Like `pin`, for several owners; `write` writes the records, possibly with others, and resolves to the store's
   * revision.
   */
  async pinWith(
    pin: Omit<PinRecord, 'node' | 'owner'>,
    owners: readonly string[],
    signal: AbortSignal,
    write: (operations: Operation[]) => Promise<number>,
  ): Promise<void> {
    const records = [...new Set(owners)].map((owner) => ({ ...pin, owner, node: this.#context.node }));
    const before = new Map(records.map((record) => [pinId(record), this.#own.get(pinId(record))]));
    for (const record of records) {
      const known = before.get(pinId(record));
      if (known?.held === true && isDeepStrictEqual(known.record, record)) continue;
      // An owner has one choice of files in a dataset: a new choice replaces the old one.
      if (known !== undefined) await this.#context.engine.unpin(known.record.manifest, engineOwner(record));
      await this.#set(record, signal);
    }
    const own = records.map((record): OwnPin => ({ record, held: true, writtenAt: Number.POSITIVE_INFINITY }));
    for (const one of own) this.#own.set(pinId(one.record), one);
    try {
      const writtenAt = await write(records.map((record) => this.#table.putOperation(pinId(record), record)));
      for (const one of own) one.writtenAt = writtenAt;
    } catch (thrown) {
      // Without records nobody could release these pins.
      for (const one of own) {
        const id = pinId(one.record);
        one.writtenAt = before.get(id)?.writtenAt ?? 0;
        if (before.get(id) === undefined) this.#releasedByOthers(id);
      }
      throw thrown;
    }
  }

  /** Writes the records of all pins of this agent again, as after the store was emptied. */
  async rewrite(): Promise<void> {
    for (const [id, own] of [...this.#own]) own.writtenAt = await this.#table.put(id, own.record);
  }

  /** No effect when this owner has no pin. */
  async unpin(dataset: string, owner: string): Promise<void> {
    const id = pinId({ node: this.#context.node, dataset, owner });
    const row = await this.#table.read(id);
    const own = this.#own.get(id)?.record;
    this.#own.delete(id);
    if (row !== undefined) await this.#table.delete(id);
    const manifest = row?.value.manifest ?? own?.manifest;
    if (manifest !== undefined) await this.#context.engine.unpin(manifest, engineOwner({ dataset, owner }));
  }

  /** All agents' pins of a dataset. */
  of(dataset: string): PinRecord[] {
    return this.#mirror.values().filter((pin) => pin.dataset === dataset);
  }

  /** Manifests pinned by any agent. */
  manifests(): Set<string> {
    return new Set(this.#mirror.values().map((pin) => pin.manifest));
  }

  /** All agents' pins with this prefix of the owner, read from the store. */
  async list(ownerPrefix: string, signal: AbortSignal): Promise<PinRecord[]> {
    const malformed = (error: HearthError) => this.#context.logger.error('ignoring a malformed pin', { error });
    const { rows } = await this.#table.list(malformed, { signal });
    return rows.map(({ value }) => value).filter(({ owner }) => owner.startsWith(ownerPrefix));
  }

  /**
   * Deletes the records of these pins, which makes their agents release them. Returns the number of deleted records.
   */
  async release(pins: readonly PinRecord[], signal: AbortSignal): Promise<number> {
    let released = 0;
    for (let at = 0; at < pins.length; at += maxDeletions) {
      const success = pins
        .slice(at, at + maxDeletions)
        .map((pin): Operation => ({ kind: 'delete', key: this.#table.key(pinId(pin)) }));
      const { deleted } = await this.#context.store.transact({ compare: [], success }, { signal });
      released += deleted.reduce((sum, count) => sum + count, 0);
    }
    return released;
  }

  async close(): Promise<void> {
    this.#stop.abort();
    for (const cancel of this.#cancels) cancel();
    await this.#restoring;
    await this.#mirror.close();
  }

  #changed(changes: readonly Change<PinRecord>[], reread: boolean): void {
    const gone = changes.filter(({ id, after }) => after === undefined && this.#own.has(id)).map(({ id }) => id);
    if (gone.length === 0) return;
    if (!reread) {
      for (const id of gone) this.#releasedByOthers(id);
      return;
    }
    // After the store was emptied, records come back at once; a record that does not was released meanwhile.
    const { clock, timings } = this.#context;
    const cancel = clock.schedule(timings.requestMs / 3, () => {
      this.#cancels.delete(cancel);
      for (const id of gone) this.#releasedByOthers(id);
    });
    this.#cancels.add(cancel);
  }

  #releasedByOthers(id: string): void {
    const own = this.#own.get(id);
    if (own === undefined || this.#mirror.get(id) !== undefined || own.writtenAt > this.#mirror.revision) return;
    const { dataset, manifest, owner } = own.record;
    this.#own.delete(id);
    this.#context.logger.info('released a pin', { dataset, owner });
    this.#context.engine.unpin(manifest, engineOwner(own.record)).catch((thrown) => {
      this.#context.logger.error('failed to release a pin', { dataset, owner, error: HearthError.from(thrown) });
    });
  }

  async #set(pin: PinRecord, signal: AbortSignal): Promise<void> {
    await this.#keeper.opened(pin.manifest, signal);
    const dataset = { name: pin.dataset, manifest: pin.manifest, bytes: 0n };
    const { entries } = await chooseFiles(this.#context.engine, dataset, pin.paths);
    await this.#context.engine.pin(pin.manifest, entries, engineOwner(pin));
  }
}

/** The engine counts pins of a content key by owner; including the dataset keeps two datasets of one owner apart. */
function engineOwner({ dataset, owner }: Pick<PinRecord, 'dataset' | 'owner'>): string {
  return `${dataset}/${owner}`;
}
