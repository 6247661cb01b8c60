import type { DatasetRevision } from '@hearth/engine';
import type { AgentContext } from '../context.ts';
import type { ManifestKeeper } from './keeper.ts';
import { type DatasetRecord, isLost } from './record.ts';
import type { DatasetTables } from './table.ts';

/**
 * Tells the engine which datasets clients may name in paths, and the current revision of each: all datasets whose
 * manifest is open here. Clients wait for listed datasets whose manifest is not open yet; unknown names fail at once,
 * also while there are no datasets.
 */
export class ClientNames {
  readonly #engine: AgentContext['engine'];
  readonly #tables: DatasetTables;
  readonly #keeper: ManifestKeeper;
  readonly #ends: (() => void)[];
  #sent = '';
  /** True once the datasets were read from the store. */
  #isReady = false;

  constructor({ engine }: Pick<AgentContext, 'engine'>, tables: DatasetTables, keeper: ManifestKeeper) {
    this.#engine = engine;
    this.#tables = tables;
    this.#keeper = keeper;
    this.#ends = [tables.mirror.onChange(() => this.#send()), keeper.onOpened(() => this.#send())];
  }

  /** Call when the datasets have been read from the store. */
  ready(): void {
    this.#isReady = true;
    this.#send();
  }

  close(): void {
    for (const end of this.#ends) end();
  }

  #send(): void {
    if (!this.#isReady) return;
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
