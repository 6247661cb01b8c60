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

/** Revisions of a dataset that stay usable for mounts and jobs that began with them. */
const keptRevisions = 10;

/** The datasets of the cluster as the store has them: tables to write, mirrors to read. */
export class DatasetTables {
  readonly datasets;
  readonly resolving;
  readonly revisions;
  readonly mirror;
  readonly revisionsMirror;
  readonly resolvingMirror;
  /** Datasets that vanished with all others, by name; since when. */
  readonly #lost = new Map<string, Date>();
  readonly #emptiedListeners = new Set<() => void>();

  constructor(store: Store, logger: Logger, clock: Clock = systemClock) {
    this.datasets = new RecordTable(store, 'datasets/', datasetSchema);
    this.resolving = new RecordTable(store, 'resolving/', resolvingSchema);
    this.revisions = new RecordTable(store, 'revisions/', revisionSchema);
    this.mirror = new Mirror(this.datasets, logger);
    this.revisionsMirror = new Mirror(this.revisions, logger);
    this.resolvingMirror = new Mirror(this.resolving, logger);
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

  /** Called after the store was found without any dataset, where there had been some. Returns the function that ends it. */
  onEmptied(listener: () => void): () => void {
    this.#emptiedListeners.add(listener);
    return () => void this.#emptiedListeners.delete(listener);
  }

  /** The dataset as the store has it now; `NotFound` names it. */
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

  /** As `get`, but it must have been listed: with a manifest. `allowFailed`: its bytes may be old. */
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

  /** True when any dataset has or had this manifest as its revision, as far as this agent has heard. */
  isRevision(digest: string): boolean {
    return this.revisionsMirror.values().some((one) => one.manifest === digest);
  }

  /** The present or a former revision of a dataset, as far as this agent has heard. */
  revision(of: DatasetRevision): RevisionRecord | undefined {
    return this.revisionsMirror.get(revisionId(of));
  }

  /** As `revision`, as the store has it now. */
  async readRevision(of: DatasetRevision): Promise<RevisionRecord | undefined> {
    return (await this.readRevisionRow(of))?.value;
  }

  async readRevisionRow(of: DatasetRevision, options: CallOptions = {}): Promise<Row<RevisionRecord> | undefined> {
    return await this.revisions.read(revisionId(of), options);
  }

  /** Datasets that have or had this manifest as their revision, as far as this agent has heard. */
  datasetsWith(digest: string): string[] {
    const those = this.revisionsMirror.values().filter((one) => one.manifest === digest);
    return those.map((one) => one.dataset).sort();
  }

  revisionsOf(name: string): RevisionRecord[] {
    return this.revisionsMirror.values().filter((one) => one.dataset === name);
  }

  /** Datasets and, in their place, those that are being listed for the first time. */
  all(): { dataset: DatasetRecord | undefined; resolving: ResolvingRecord | undefined }[] {
    const names = new Set([...this.mirror.rows(), ...this.resolvingMirror.rows()].map((row) => row.id));
    return [...names]
      .sort()
      .map((name) => ({ dataset: this.mirror.get(name), resolving: this.resolvingMirror.get(name) }));
  }

  /** Resolves to true when the manifest is or was a revision of the dataset, as the store has it now. */
  async hasRevision(name: string, manifest: string): Promise<boolean> {
    return (await this.readRevision({ dataset: name, manifest })) !== undefined;
  }

  /** Writes a revision and deletes old ones of the dataset, but for those whose manifests are used somewhere. */
  async revisionOperations(revision: RevisionRecord, used: () => Promise<Set<string>>): Promise<Operation[]> {
    const put = this.revisionOperation(revision);
    const others = this.revisionsOf(revision.dataset).filter((one) => one.manifest !== revision.manifest);
    const old = others.sort((a, b) => b.createdAt - a.createdAt).slice(keptRevisions - 1, keptRevisions + 50);
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
}

function revisionId(revision: DatasetRevision): string {
  return `${revision.manifest}/${revision.dataset}`;
}
