import type { DatasetRevision } from '@hearth/engine';
import type { AgentContext } from '../context.ts';
import type { ManifestKeeper } from './keeper.ts';
import type { DatasetTables } from './table.ts';

/**
 * Tells the engine which datasets clients may name in paths, and which revision each name means now: all whose manifest
 * is open here. A client that asks earlier hears that there is no such dataset, and asks another agent or again.
 */
export class ClientNames {
  readonly #engine: AgentContext['engine'];
  readonly #tables: DatasetTables;
  readonly #keeper: ManifestKeeper;
  readonly #ends: (() => void)[];
  #told = '[]';

  constructor({ engine }: Pick<AgentContext, 'engine'>, tables: DatasetTables, keeper: ManifestKeeper) {
    this.#engine = engine;
    this.#tables = tables;
    this.#keeper = keeper;
    this.#ends = [tables.mirror.onChange(() => this.#tell()), keeper.onOpened(() => this.#tell())];
    this.#tell();
  }

  close(): void {
    for (const end of this.#ends) end();
  }

  #tell(): void {
    const names: DatasetRevision[] = this.#tables.mirror
      .values()
      .filter(({ manifest }) => this.#keeper.isOpen(manifest))
      .map(({ name, manifest }) => ({ dataset: name, manifest }));
    const text = JSON.stringify(names);
    if (text === this.#told) return;
    this.#engine.nameDatasets(names);
    this.#told = text;
  }
}
