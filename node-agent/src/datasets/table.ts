import { type Clock, HearthError, type Logger, systemClock } from '@hearth/common';
import type { DatasetRevision } from '@hearth/engine';
import { Mirror, RecordTable, type Row } from '../records/index.ts';
import type { CallOptions, Operation, Store } from '../store/index.ts';
import {
  type DatasetRecord,
  datasetSchema,
  type ResolvingRecord,
  type RevisionRecord,
  resolvingSchema,
  revisionSchema,
} from './record.ts';

/** Number of former revisions of a dataset that stay usable for mounts and jobs. */
const maxFormerRevisions = 10;

/** The datasets in the store: tables to write, mirrors to read. */
export class DatasetTables {
  readonly datasets;
  readonly resolving;
  readonly revisions;
  readonly mirror;
  readonly revisionsMirror;
  readonly resolvingMirror;
  /** Datasets that vanished all at once, by name, with the time. */
  readonly #lost = new Map<string, Date>();
  readonly #emptiedListeners = new Set<() => void>();
  /** Of the mirror of revisions: names of the datasets by manifest, and revisions by dataset and manifest. */
  readonly #datasetsOf = new Map<string, Set<string>>();
  readonly #revisionsOf = new Map<string, Map<string, RevisionRecord>>();

  constructor(store: Store, logger: Logger, clock: Clock = systemClock) {
    this.datasets = new RecordTable(store, 'datasets/', datasetSchema);
    this.resolving = new RecordTable(store, 'resolving/', resolvingSchema);
    this.revisions = new RecordTable(store, 'revisions/', revisionSchema);
    this.mirror = new Mirror(this.datasets, logger);
    this.revisionsMirror = new Mirror(this.revisions, logger);
    this.resolvingMirror = new Mirror(this.resolving, logger);
    this.revisionsMirror.onChange((changes) => {
      for (const { before, after } of changes) this.#index(before, after);
    });
    this.mirror.onChange((changes, { reread }) => {
      for (const { id, after } of changes) if (after !== undefined) this.#lost.delete(id);
      const gone = changes.filter(({ before, after }) => before !== undefined && after === undefined);
      if (!reread || gone.length === 0 || this.mirror.rows().length > 0) return;
      const names = gone.map(({ id }) => id);
      for (const name of names) this.#lost.set(name, clock.date());
      logger.error(
        'the store lost all datasets; the operator adds them again, and without Kubernetes `hearth dataset add` does',
        { datasets: names },
      );
      for (const listener of this.#emptiedListeners) listener();
    });
  }

  async ready(signal: AbortSignal): Promise<void> {
    const mirrors = [this.mirror, this.revisionsMirror, this.resolvingMirror];
    await Promise.all(mirrors.map((mirror) => mirror.ready(signal)));
  }

  /** Calls the listener when a store that had datasets has none. Returns a function that unsubscribes. */
  onEmptied(listener: () => void): () => void {
    this.#emptiedListeners.add(listener);
    return () => void this.#emptiedListeners.delete(listener);
  }

  /** Reads the dataset from the store; throws `NotFound` with its name. */
  async get(name: string): Promise<DatasetRecord> {
    const row = await this.datasets.read(name);
    if (row !== undefined) return row.value;
    if ((await this.resolving.read(name)) !== undefined) {
      throw new HearthError(
        'Unavailable',
        `dataset ${name} is still being listed; wait until hearth dataset ls shows it as Ready`,
      );
    }
    const lost = this.#lost.get(name);
    if (lost !== undefined) {
      throw new HearthError(
        'NotFound',
        `dataset ${name} was lost with the store at ${lost.toISOString()}; add the dataset again, its bytes are still in the caches`,
      );
    }
    throw new HearthError('NotFound', `there is no dataset ${name}; hearth dataset ls lists all datasets`);
  }

  /** Like `get`, for a dataset that was listed and has a manifest. `allowFailed`: its bytes may be outdated. */
  async usable(name: string, allowFailed = false): Promise<DatasetRecord> {
    const dataset = await this.get(name);
    if (dataset.state === 'Failed' && (!allowFailed || dataset.manifest === '')) {
      throw new HearthError(
        dataset.errorCode ?? 'Unavailable',
        `dataset ${name} has failed (${dataset.message}); correct the origin and add it again`,
      );
    }
    return dataset;
  }

  /** True when this agent's mirror has the manifest as a current or former revision of any dataset. */
  isRevision(digest: string): boolean {
    return this.#datasetsOf.has(digest);
  }

  /** A current or former revision of the dataset in this agent's mirror. */
  revision(of: DatasetRevision): RevisionRecord | undefined {
    return this.revisionsMirror.get(revisionId(of));
  }

  /** Like `revision`, read from the store. */
  async readRevision(of: DatasetRevision): Promise<RevisionRecord | undefined> {
    return (await this.readRevisionRow(of))?.value;
  }

  async readRevisionRow(of: DatasetRevision, options: CallOptions = {}): Promise<Row<RevisionRecord> | undefined> {
    return await this.revisions.read(revisionId(of), options);
  }

  /** Datasets that have the manifest as a current or former revision in this agent's mirror. */
  datasetsWith(digest: string): string[] {
    return [...(this.#datasetsOf.get(digest) ?? [])].sort();
  }

  revisionsOf(name: string): RevisionRecord[] {
    return [...(this.#revisionsOf.get(name)?.values() ?? [])];
  }

  /** All datasets, including placeholders for those being listed for the first time. */
  all(): { dataset: DatasetRecord | undefined; resolving: ResolvingRecord | undefined }[] {
    const names = new Set([...this.mirror.rows(), ...this.resolvingMirror.rows()].map((row) => row.id));
    return [...names]
      .sort()
      .map((name) => ({ dataset: this.mirror.get(name), resolving: this.resolvingMirror.get(name) }));
  }

  /** True when the store has the manifest as a current or former revision of the dataset. */
  async hasRevision(name: string, manifest: string): Promise<boolean> {
    return (await this.readRevision({ dataset: name, manifest })) !== undefined;
  }

  /** Writes a revision and deletes old ones of the dataset, except revisions whose manifests are in use. */
  async revisionOperations(revision: RevisionRecord, used: () => Promise<Set<string>>): Promise<Operation[]> {
    const put = this.revisionOperation(revision);
    const others = this.revisionsOf(revision.dataset).filter((one) => one.manifest !== revision.manifest);
    const old = others.sort((a, b) => b.createdAt - a.createdAt).slice(maxFormerRevisions - 1, maxFormerRevisions + 50);
    if (old.length === 0) return [put];
    const needed = await used();
    const spare = old.filter((one) => !needed.has(one.manifest));
    return [put, ...spare.map((one) => this.deleteRevision(one))];
  }

  revisionOperation(revision: RevisionRecord): Operation {
    return this.revisions.putOperation(revisionId(revision), revision);
  }

  deleteRevision(revision: RevisionRecord): Operation {
    return { kind: 'delete', key: this.revisions.key(revisionId(revision)) };
  }

  async close(): Promise<void> {
    await Promise.all([this.mirror.close(), this.revisionsMirror.close(), this.resolvingMirror.close()]);
  }

  #index(before: RevisionRecord | undefined, after: RevisionRecord | undefined): void {
    if (before !== undefined) {
      const { dataset, manifest } = before;
      const [names, revisions] = [this.#datasetsOf.get(manifest), this.#revisionsOf.get(dataset)];
      if (names?.delete(dataset) && names.size === 0) this.#datasetsOf.delete(manifest);
      if (revisions?.delete(manifest) && revisions.size === 0) this.#revisionsOf.delete(dataset);
    }
    if (after !== undefined) {
      const { dataset, manifest } = after;
      this.#datasetsOf.set(manifest, (this.#datasetsOf.get(manifest) ?? new Set()).add(dataset));
      this.#revisionsOf.set(dataset, (this.#revisionsOf.get(dataset) ?? new Map()).set(manifest, after));
    }
  }
}

function revisionId(revision: DatasetRevision): string {
  return `${revision.manifest}/${revision.dataset}`;
}
