import type { DatasetRevision } from '@hearth/engine';
import type { AgentContext } from '../context.ts';
import type { ManifestKeeper } from './keeper.ts';
import { type DatasetRecord, isLost } from './record.ts';
import type { DatasetTables } from './table.ts';

/** Of the agent's time, the part that it may spend on lists of names. */
const share = 1 / 20;

/**
 * Tells the engine which datasets clients may name in paths, and the current revision of each: all datasets whose
 * manifest is open here. Clients wait for listed datasets whose manifest is not open yet; unknown names fail at once,
 * also while there are no datasets.
 */
export class ClientNames {
  readonly #engine: AgentContext['engine'];
  readonly #clock: AgentContext['clock'];
  readonly #tables: DatasetTables;
  readonly #keeper: ManifestKeeper;
  readonly #ends: (() => void)[];
  #sent = '';
  /** Time of the next list at the earliest, by the clock. */
  #nextAt = 0;
  /** Cancels the list that waits for this time. */
  #cancel: (() => void) | undefined;
  /** True once the datasets were read from the store. */
  #isReady = false;

  constructor(
    { engine, clock }: Pick<AgentContext, 'engine' | 'clock'>,
    tables: DatasetTables,
    keeper: ManifestKeeper,
  ) {
    this.#engine = engine;
    this.#clock = clock;
    this.#tables = tables;
    this.#keeper = keeper;
    this.#ends = [tables.mirror.onChange(() => this.#request()), keeper.onOpened(() => this.#request())];
  }

  /** Call when the datasets have been read from the store. */
  ready(): void {
    this.#isReady = true;
    this.#request();
  }

  close(): void {
    for (const end of this.#ends) end();
    this.#cancel?.();
  }

  #request(): void {
    if (!this.#isReady || this.#cancel !== undefined) return;
    const began = this.#clock.now();
    if (began < this.#nextAt) {
      this.#cancel = this.#clock.schedule(this.#nextAt - began, () => {
        this.#cancel = undefined;
        this.#request();
      });
      return;
    }
    this.#send();
    const ended = this.#clock.now();
    this.#nextAt = ended + (ended - began) / share;
  }

  #send(): void {
    const listed = this.#tables.mirror.values().filter(({ manifest }) => manifest !== '');
    const isOpen = ({ manifest }: DatasetRecord) => this.#keeper.isOpen(manifest);
    const names: DatasetRevision[] = listed.filter(isOpen).map(({ name, manifest }) => ({ dataset: name, manifest }));
    const awaited = listed.filter((dataset) => !isOpen(dataset) && !isLost(dataset)).map(({ name }) => name);
    const text = JSON.stringify([names, awaited]);
    if (text === this.#sent) return;
    this.#engine.nameDatasets(names, awaited);
    this.#sent = text;
  }
}
