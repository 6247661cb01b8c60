import { epochMs, HearthError, type Logger, within } from '@hearth/common';
import type { Credentials } from '@hearth/common/generated/hearth/v1/control.ts';
import { type ManifestInfo, PathFilter } from '@hearth/engine';
import type { AgentContext } from '../context.ts';
import { type CredentialCache, ofFirst } from '../credentials/index.ts';
import { checkMirrors, hasOwn, type Origin, type Source, sameMirrors, samePlaces } from '../origins/index.ts';
import { abortError } from '../records/index.ts';
import type { Operation, Store } from '../store/index.ts';
import type { ManifestKeeper } from './keeper.ts';
import { type Listed, type ListingProgress, listOrigin } from './listing.ts';
import { type Outcome, recordOf, revisionOf } from './outcome.ts';
import {
  checkName,
  type DatasetRecord,
  type DatasetRequest,
  type ResolvingRecord,
  refuseSecrets,
  sameRequest,
} from './record.ts';
import type { DatasetTables } from './table.ts';

/**
 * Opens the origin of a source or of a mirror under this agent's policy. `revision`: the previously listed one.
 * `credentials`: those of the dataset for this place; undefined: the dataset has none, and the agent's identity is used
 * if its policy permits `dataset`.
 */
export type OpenOrigin = (
  source: Source,
  revision: string,
  credentials: Credentials | undefined,
  dataset: string,
) => Origin;

export interface Resolved {
  dataset: DatasetRecord;
  /** The origin is in the same state as before. */
  unchanged: boolean;
}

/**
 * Adds datasets: lists an origin into a manifest and registers it. Among agents asked at the same time, one lists,
 * holding `resolving/<name>` under its lease; the others wait for the outcome and take the manifest from it. When the
 * listing agent goes away, the next waiting agent takes over.
 */
export class Resolution {
  readonly #store: Store;
  readonly #context: AgentContext;
  readonly #logger: Logger;
  readonly #tables: DatasetTables;
  readonly #open: OpenOrigin;
  readonly #credentials: CredentialCache;
  readonly #keeper: Pick<ManifestKeeper, 'holdRemovals'>;
  readonly #used: () => Promise<Set<string>>;

  /** `used`: manifests whose revisions must stay however old they are. */
  constructor(
    context: AgentContext,
    tables: DatasetTables,
    parts: {
      open: OpenOrigin;
      credentials: CredentialCache;
      keeper: Pick<ManifestKeeper, 'holdRemovals'>;
      used: () => Promise<Set<string>>;
    },
  ) {
    this.#open = parts.open;
    this.#credentials = parts.credentials;
    this.#keeper = parts.keeper;
    this.#used = parts.used;
    this.#store = context.store;
    this.#context = context;
    this.#logger = context.logger;
    this.#tables = tables;
  }

  /**
   * Refuses requests that cannot succeed whatever the origin answers; returns the current dataset. Throws like `add`.
   */
  async check(name: string, request: DatasetRequest, signal: AbortSignal): Promise<DatasetRecord | undefined> {
    checkName('dataset', name);
    checkMirrors(request.source);
    refuseSecrets(request.source);
    new PathFilter(request.include, request.exclude);
    const before = (await this.#tables.datasets.read(name, { signal }))?.value;
    this.#refuseOther(name, before, request);
    return before;
  }

  /**
   * Throws `AlreadyExists` when the name belongs to another source, and errors of the origin after recording them.
   * Calls `progress` occasionally, also while another agent lists.
   */
  async add(
    name: string,
    request: DatasetRequest,
    progress: (progress: ListingProgress) => void,
    signal: AbortSignal,
  ): Promise<Resolved> {
    const before = await this.check(name, request, signal);
    for (;;) {
      signal.throwIfAborted();
      const lockRevision = await this.#lock(name, request, signal);
      if (lockRevision !== undefined) {
        return await this.#lead(name, request, { lockRevision, lost: false }, progress, signal);
      }
      const other = await this.#waitForOther(name, request, progress, signal);
      // The other agent listed with other mirrors than requested: list again.
      const ours = other !== undefined && sameMirrors(other.source, request.source);
      if (ours && other.attempts > (before?.attempts ?? 0)) return await this.#follow(other, request);
    }
  }

  /**
   * Lists a dataset again whose manifest no ready agent has. Does nothing when another agent lists it or its record has
   * changed. Throws errors of the origin after recording that the dataset failed.
   */
  async relist(dataset: DatasetRecord, signal: AbortSignal): Promise<void> {
    const { name, source, include, exclude, manifest, attempts } = dataset;
    const request = { source, include, exclude };
    const lockRevision = await this.#lock(name, request, signal);
    if (lockRevision === undefined) return;
    const present = await this.#tables.datasets.read(name, { signal }).catch(async (thrown: unknown) => {
      await this.#release(name, lockRevision);
      throw thrown;
    });
    const same = present?.value.manifest === manifest && present.value.attempts === attempts;
    if (same) await this.#lead(name, request, { lockRevision, lost: true }, () => {}, signal);
    else await this.#release(name, lockRevision);
  }

  #refuseOther(
    name: string,
    present: (DatasetRequest & { manifest?: string }) | undefined,
    request: DatasetRequest,
  ): void {
    if (present === undefined || present.manifest === '' || sameRequest(present, request)) return;
    throw new HearthError(
      'AlreadyExists',
      `dataset ${name} has another source or other patterns; choose another name, or remove it first (hearth dataset rm ${name})`,
    );
  }

  /** Store revision at which this agent took the lock; undefined when another agent holds it. */
  async #lock(name: string, request: DatasetRequest, signal: AbortSignal): Promise<number | undefined> {
    const lease = await this.#context.session.lease(signal);
    const record: ResolvingRecord = {
      name,
      node: this.#context.node,
      source: request.source,
      filesListed: 0,
      bytesListed: 0n,
      startedAt: epochMs(this.#context.clock),
    };
    const put = this.#tables.resolving.putOperation(name, record, lease);
    const compare = [{ key: this.#tables.resolving.key(name), exists: false }];
    const result = await this.#store.transact({ compare, success: [put] }, { signal });
    return result.succeeded ? result.revision : undefined;
  }

  /** Waits until no agent lists the dataset; returns the resulting record. */
  async #waitForOther(
    name: string,
    request: DatasetRequest,
    progress: (progress: ListingProgress) => void,
    signal: AbortSignal,
  ): Promise<DatasetRecord | undefined> {
    const revision = await this.#store.revision({ signal });
    const present = (await this.#tables.resolving.read(name, { signal }))?.value;
    if (present !== undefined && !sameRequest({ ...request, source: present.source }, request)) {
      throw new HearthError(
        'AlreadyExists',
        `dataset ${name} is being added from another source by ${present.node}; choose another name`,
      );
    }
    if (present !== undefined) {
      for await (const item of this.#store.watch(this.#tables.resolving.key(name), revision + 1, { signal })) {
        if (item.kind === 'compacted') break;
        const mine = item.events.filter(
          (event) => (event.kind === 'put' ? event.entry.key : event.key) === this.#tables.resolving.key(name),
        );
        for (const event of mine) if (event.kind === 'put') progress(this.#tables.resolving.decode(event.entry).value);
        if (mine.some((event) => event.kind === 'delete')) break;
      }
    }
    return (await this.#tables.datasets.read(name, { signal }))?.value;
  }

  async #follow(dataset: DatasetRecord, request: DatasetRequest): Promise<Resolved> {
    this.#refuseOther(dataset.name, dataset, request);
    const { errorCode, message, unchanged } = dataset.lastAttempt;
    if (errorCode !== undefined) throw new HearthError(errorCode, message);
    return { dataset, unchanged };
  }

  async #lead(
    name: string,
    request: DatasetRequest,
    { lockRevision, lost }: { lockRevision: number; lost: boolean },
    progress: (progress: ListingProgress) => void,
    signal: AbortSignal,
  ): Promise<Resolved> {
    const { before, listed } = await this.#look(name, request, progress, signal).catch(async (thrown: unknown) => {
      await this.#release(name, lockRevision);
      throw thrown;
    });
    return await this.#register(name, request, { before, lockRevision, lost }, listed);
  }

  /** Lists the origin, then closes it. */
  async #look(
    name: string,
    request: DatasetRequest,
    progress: (progress: ListingProgress) => void,
    signal: AbortSignal,
  ): Promise<{ before: DatasetRecord | undefined; listed: Listed | HearthError }> {
    const origin = await this.#openOrFail(name, request, signal);
    try {
      const before = (await this.#tables.datasets.read(name, { signal }))?.value;
      // Another agent may have registered the name before the lock was taken.
      this.#refuseOther(name, before, request);
      const listed = await this.#list(name, request, origin, progress, signal).catch(HearthError.from);
      if (signal.aborted) throw abortError(signal);
      return { before, listed };
    } finally {
      if (!(origin instanceof HearthError)) origin.close();
    }
  }

  /** Makes the manifest of the listing, writes the outcome and releases the lock. */
  async #register(
    name: string,
    request: DatasetRequest,
    { before, lockRevision, lost }: { before: DatasetRecord | undefined; lockRevision: number; lost: boolean },
    listed: Listed | HearthError,
  ): Promise<Resolved> {
    const registered = await this.#keeper.holdRemovals();
    let info: ManifestInfo | undefined;
    let written: number | undefined;
    try {
      const outcome = { ...(await this.#made(listed)), lost };
      info = outcome.info;
      const now = epochMs(this.#context.clock);
      const dataset = recordOf(name, { ...request, credentialed: this.#credentials.isOwn(name) }, before, now, outcome);
      written = await this.#finish(name, lockRevision, [
        this.#tables.datasets.putOperation(name, dataset),
        ...(outcome.error === undefined
          ? await this.#tables.revisionOperations(revisionOf(dataset, now), this.#used)
          : this.#corrected(before, request)),
      ]);
      if (outcome.error !== undefined) throw outcome.error;
      return { dataset, unchanged: dataset.lastAttempt.unchanged };
    } catch (thrown) {
      if (written === undefined) await this.#release(name, lockRevision);
      throw thrown;
    } finally {
      registered(info === undefined ? undefined : { digest: info.digest, dataset: name, written });
    }
  }

  async #made(listed: Listed | HearthError): Promise<Outcome> {
    if (listed instanceof HearthError) return { info: undefined, revision: undefined, error: listed };
    try {
      const info = await this.#context.engine.finishManifest(listed.builder);
      return { info, revision: listed.revision, error: undefined };
    } catch (thrown) {
      return { info: undefined, revision: undefined, error: HearthError.from(thrown) };
    }
  }

  /**
   * Applies changed settings of unchanged places at once: a mirror may be corrected just because the source is
   * unreachable.
   */
  #corrected(before: DatasetRecord | undefined, { source }: DatasetRequest): Operation[] {
    if (before === undefined || before.manifest === '' || !samePlaces(before.source, source)) return [];
    const known = this.#tables.revision({ dataset: before.name, manifest: before.manifest });
    return known === undefined ? [] : [this.#tables.revisionOperation({ ...known, source })];
  }

  /** Records a source that cannot be opened like a failed listing, so that waiting agents get the error. */
  async #openOrFail(name: string, request: DatasetRequest, signal: AbortSignal): Promise<Origin | HearthError> {
    try {
      const { clock, timings } = this.#context;
      // Without credentials, `of` throws the reason.
      if (!hasOwn(request.source, 0)) return this.#open(request.source, '', undefined, name);
      await this.#credentials.arrived(name, within(clock, timings.requestMs, signal)).catch(() => undefined);
      return this.#open(request.source, '', ofFirst(this.#credentials.of(name)), name);
    } catch (thrown) {
      return HearthError.from(thrown);
    }
  }

  async #list(
    name: string,
    request: DatasetRequest,
    origin: Origin | HearthError,
    progress: (progress: ListingProgress) => void,
    signal: AbortSignal,
  ): Promise<Listed> {
    if (origin instanceof HearthError) throw origin;
    const report = async (seen: ListingProgress) => {
      progress(seen);
      await this.#publish(name, seen);
    };
    const { engine, logger, clock, listing, timings } = this.#context;
    const parts = { engine, logger, clock, limits: listing, silenceMs: timings.listingMs, report };
    return await listOrigin(name, request, origin, parts, signal);
  }

  /** Publishes the progress of the listing to other agents; a failure is harmless. */
  async #publish(name: string, seen: ListingProgress): Promise<void> {
    const row = await this.#tables.resolving.read(name).catch(() => undefined);
    if (row === undefined || row.value.node !== this.#context.node || row.lease === undefined) return;
    const put = this.#tables.resolving.putOperation(name, { ...row.value, ...seen }, row.lease);
    const compare = [{ key: this.#tables.resolving.key(name), modRevision: row.modRevision }];
    await this.#store.transact({ compare, success: [put] }).catch(() => undefined);
  }

  /**
   * Writes the outcome and releases the lock in one transaction, which fails if another agent took the lock. Returns
   * the store revision.
   */
  async #finish(name: string, lockRevision: number, operations: Operation[]): Promise<number> {
    const key = this.#tables.resolving.key(name);
    const compare = [{ key, createRevision: lockRevision }];
    const result = await this.#store.transact({ compare, success: [...operations, { kind: 'delete', key }] });
    if (result.succeeded) return result.revision;
    throw new HearthError(
      'Unavailable',
      `the agent lost its lease while it listed dataset ${name}; add the dataset again`,
    );
  }

  async #release(name: string, lockRevision: number): Promise<void> {
    const key = this.#tables.resolving.key(name);
    await this.#store
      .transact({ compare: [{ key, createRevision: lockRevision }], success: [{ kind: 'delete', key }] })
      .catch((thrown) =>
        this.#logger.warn('failed to release the lock of a dataset; it expires with the lease', {
          dataset: name,
          error: thrown,
        }),
      );
  }
}
