import { isDeepStrictEqual } from 'node:util';
import { HearthError, sleep, within } from '@hearth/common';
import type { DatasetRevision, EngineEvent } from '@hearth/engine';
import type { AgentContext } from '../context.ts';
import { unlessAborted } from '../records/index.ts';
import type { Locations } from './locations.ts';
import type { RevisionRecord } from './record.ts';
import type { DatasetTables } from './table.ts';

const firstPauseMs = 200;
const maxPauseMs = 10_000;

/** By then the store has reported the record's fate, or is unavailable and nothing is removed. */
const maxHoldMs = 10 * 60_000;

/** A manifest of a dataset. `written`: store revision of its record, 0: no record, undefined: unknown. */
export interface Made {
  digest: string;
  dataset: string;
  written: number | undefined;
}

type KeeperContext = Pick<AgentContext, 'engine' | 'logger' | 'clock' | 'timings'>;

/**
 * Keeps the engine's manifests in step with the datasets: fetches new manifests from peers and removes manifests of
 * removed revisions. Fails a dataset whose origin no longer has a file of its manifest.
 */
export class ManifestKeeper {
  readonly #context: KeeperContext;
  readonly #tables: DatasetTables;
  readonly #locations: Locations;
  readonly #stop = new AbortController();
  #lastWarning = '';
  readonly #fetching = new Map<string, Promise<void>>();
  readonly #open = new Set<string>();
  /**
   * Running openings in the engine, counted, and running removals of a manifest exclude each other, so that `#open`
   * stays correct.
   */
  readonly #opening = new Map<string, number>();
  readonly #removing = new Map<string, Promise<void>>();
  /** Manifests that no dataset needs, to be removed when nothing blocks the removal. */
  readonly #unused = new Set<string>();
  /** Number of manifests being made for datasets without a record. While positive, no manifest is removed. */
  #removalHolds = 0;
  readonly #openedListeners = new Set<(digest: string) => void>();
  readonly #missingListeners = new Set<(digest: string) => void>();
  /** Manifests in use on this node regardless of their datasets, each with the controller that ends the wait for it. */
  readonly #kept = new Map<string, AbortController>();

  constructor(context: KeeperContext, tables: DatasetTables, locations: Locations) {
    this.#context = context;
    this.#tables = tables;
    this.#locations = locations;
    tables.mirror.onChange(() => this.#fetchMissing());
    tables.revisionsMirror.onChange((changes, { reread }) => {
      // An emptied store gets its datasets back; until then their manifests and locations keep serving readers.
      const emptied = reread && tables.revisionsMirror.rows().length === 0;
      for (const { before, after } of changes) {
        if (before !== undefined && after === undefined && !emptied) this.#left(before.manifest);
        // The files may have moved, or the origin needs other settings.
        if (after !== undefined && !sameSource(before, after)) this.#relocate(after);
      }
      this.#fetchMissing();
    });
    this.#fetchMissing();
  }

  isOpen(digest: string): boolean {
    return this.#open.has(digest);
  }

  /** Calls the listener when a manifest was opened here. Returns a function that unsubscribes. */
  onOpened(listener: (digest: string) => void): () => void {
    this.#openedListeners.add(listener);
    return () => void this.#openedListeners.delete(listener);
  }

  /**
   * Calls the listener after each search for a manifest that found it at no ready agent although every agent answered.
   * Returns a function that unsubscribes.
   */
  onMissing(listener: (digest: string) => void): () => void {
    this.#missingListeners.add(listener);
    return () => void this.#missingListeners.delete(listener);
  }

  /** Resolves when the manifest is open here; waits for a peer that has it until the signal aborts. */
  async opened(digest: string, signal: AbortSignal): Promise<void> {
    let last: HearthError | undefined;
    for (let failures = 0; !this.#open.has(digest); failures++) {
      signal.throwIfAborted();
      try {
        await unlessAborted(this.#openBesideOthers(digest), signal);
      } catch (thrown) {
        const error = HearthError.from(thrown);
        if (signal.aborted) throw last ?? unanswered(digest, error);
        if (error.code !== 'NotFound' && error.code !== 'Unavailable') throw error;
        last = error;
        if (failures > 0) await this.#noteMissing(digest, error);
        await sleep(this.#context.clock, Math.min(maxPauseMs, firstPauseMs * 2 ** failures), signal);
        if (signal.aborted) throw error;
      }
    }
  }

  /**
   * Like `opened`, with a bound: `NotFound` when no peer has the manifest within `requestMs`, `Unavailable` with the
   * reasons when some peers did not answer.
   */
  async openedSoon(digest: string, signal: AbortSignal): Promise<void> {
    const { clock, timings } = this.#context;
    try {
      await this.opened(digest, within(clock, timings.requestMs, signal));
    } catch (thrown) {
      throw (await this.#unreachable(digest, HearthError.from(thrown))) ?? thrown;
    }
  }

  /** Adding a dataset again does not help while this agent cannot talk to the peers that have the manifest. */
  async #unreachable(digest: string, error: HearthError): Promise<HearthError | undefined> {
    if (error.code !== 'NotFound' && error.code !== 'Unavailable') return undefined;
    const { peers } = await this.#context.engine.statistics();
    const unresponsive = peers.filter((peer) => !peer.connected && peer.error !== '');
    if (unresponsive.length === 0) return undefined;
    // Each reason begins with the name of the peer, if known.
    const reasons = unresponsive.map((peer) => peer.error).join('; ');
    const message = `the manifest ${digest} is not on this node, and the agents that may have it do not answer (${reasons})`;
    return new HearthError('Unavailable', message, { cause: error });
  }

  /** Reopens the origins of a dataset with its current credentials. */
  credentialsChanged(dataset: string): void {
    for (const revision of this.#tables.revisionsOf(dataset)) this.#relocate(revision);
  }

  /** Opens and keeps exactly these manifests even if they are no revision of a dataset any more. */
  keep(digests: ReadonlySet<string>): void {
    for (const [digest, wait] of [...this.#kept]) {
      if (digests.has(digest)) continue;
      wait.abort();
      this.#kept.delete(digest);
      this.#left(digest);
    }
    for (const digest of digests) {
      if (this.#kept.has(digest)) continue;
      const wait = new AbortController();
      this.#kept.set(digest, wait);
      this.#fetch(digest, AbortSignal.any([this.#stop.signal, wait.signal]));
    }
  }

  /**
   * Call before making a manifest for a dataset without a record, because the manifest may equal one that is being
   * removed. No manifest is removed until the returned function was called and this agent has seen the record. `made`:
   * undefined when no manifest was made; an unused manifest is removed afterwards.
   */
  async holdRemovals(): Promise<(made: Made | undefined) => void> {
    this.#removalHolds++;
    await Promise.all(this.#removing.values());
    return (made) => void this.#releaseHold(made);
  }

  /** Handles the engine's report that the origin no longer has a file of this manifest as listed. */
  async originChanged(event: Extract<EngineEvent, { kind: 'originChanged' }>): Promise<void> {
    const name = event.dataset;
    if (this.#tables.revision(event) === undefined) return;
    const [entry] = await this.#context.engine.entriesAt(event.manifest, [event.entry]).catch(() => []);
    const message = `the origin no longer has ${entry?.path ?? 'a file'} as it was listed: ${event.message}; add the dataset again to use the current state`;
    await this.#tables.datasets.update(name, (present) =>
      present === undefined || present.manifest !== event.manifest || present.state === 'Failed'
        ? undefined
        : { ...present, state: 'Failed', errorCode: 'OriginChanged', message },
    );
    this.#context.logger.error('the origin has changed', {
      dataset: name,
      manifest: event.manifest,
      reason: message,
    });
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await Promise.all(this.#fetching.values());
  }

  async #noteMissing(digest: string, error: HearthError): Promise<void> {
    const unreachable = await this.#unreachable(digest, error).catch(() => undefined);
    if (unreachable === undefined) {
      this.#context.logger.debug('failed to fetch the manifest from a peer', { manifest: digest, error });
      if (error.code === 'NotFound') for (const listener of this.#missingListeners) listener(digest);
      return;
    }
    if (this.#lastWarning !== unreachable.message)
      this.#context.logger.warn('failed to get a manifest', { error: unreachable });
    this.#lastWarning = unreachable.message;
  }

  #fetchMissing(): void {
    for (const { manifest } of this.#tables.mirror.values())
      if (manifest !== '') this.#fetch(manifest, this.#stop.signal);
  }

  #fetch(manifest: string, signal: AbortSignal): void {
    if (this.#open.has(manifest) || this.#fetching.has(manifest)) return;
    const fetching = this.opened(manifest, signal)
      .catch((thrown) => {
        if (signal.aborted) return;
        this.#context.logger.error('failed to open a manifest', { manifest, error: HearthError.from(thrown) });
      })
      .finally(() => this.#fetching.delete(manifest));
    this.#fetching.set(manifest, fetching);
  }

  async #openBesideOthers(digest: string): Promise<void> {
    this.#opening.set(digest, (this.#opening.get(digest) ?? 0) + 1);
    try {
      await this.#openNow(digest);
    } finally {
      const left = (this.#opening.get(digest) ?? 1) - 1;
      if (left > 0) this.#opening.set(digest, left);
      else this.#opening.delete(digest);
      this.#removeUnused();
    }
  }

  async #openNow(digest: string): Promise<void> {
    await this.#removing.get(digest);
    await this.#context.engine.openManifest(digest);
    const before = this.#open.has(digest);
    this.#open.add(digest);
    if (!before) for (const listener of this.#openedListeners) listener(digest);
    // A mirror delivers revisions; later ones are located when they arrive.
    for (const dataset of this.#tables.datasetsWith(digest)) this.#relocate({ manifest: digest, dataset });
  }

  /** A dataset no longer needs the manifest; removes it unless another one on this node does. */
  #left(digest: string): void {
    if (this.#kept.has(digest)) return;
    for (const dataset of this.#locations.datasetsWith(digest)) {
      const revision = { manifest: digest, dataset };
      if (this.#tables.revision(revision) === undefined) this.#locations.forget(revision);
    }
    this.#unused.add(digest);
    this.#removeUnused();
  }

  /** Removes unused manifests that are not being opened, made or removed; called again when that ends. */
  #removeUnused(): void {
    if (this.#removalHolds > 0) return;
    for (const digest of [...this.#unused]) {
      if (this.#opening.has(digest) || this.#removing.has(digest)) continue;
      this.#unused.delete(digest);
      if (this.#kept.has(digest) || this.#tables.isRevision(digest)) continue;
      this.#open.delete(digest);
      const removing = this.#removeNow(digest).finally(() => {
        this.#removing.delete(digest);
        this.#removeUnused();
      });
      this.#removing.set(digest, removing);
    }
  }

  async #removeNow(digest: string): Promise<void> {
    try {
      await this.#context.engine.removeManifest(digest);
    } catch (thrown) {
      const error = HearthError.from(thrown);
      if (error.code !== 'NotFound')
        this.#context.logger.info('failed to delete an unused manifest; retrying', { manifest: digest, error });
    }
  }

  /** An agent that stops before it has seen the record removes nothing. */
  async #releaseHold(made: Made | undefined): Promise<void> {
    const deadline = within(this.#context.clock, maxHoldMs, this.#stop.signal);
    try {
      if (made !== undefined) {
        const written = made.written ?? (await this.#recordRevision(made, deadline));
        await this.#tables.revisionsMirror.caughtUp(written, deadline);
        this.#unused.add(made.digest);
      }
    } catch {
      // The store is unavailable for long. An extra manifest costs little; removing the only copy would cost the
      // dataset.
      if (this.#stop.signal.aborted) return;
      if (made !== undefined) this.#unused.delete(made.digest);
    }
    this.#removalHolds--;
    this.#removeUnused();
  }

  /**
   * The store revision of a record; 0 when there is none. A record whose write got no answer may exist until its writer
   * has stopped listing.
   */
  async #recordRevision({ digest, dataset }: Made, signal: AbortSignal): Promise<number> {
    for (;;) {
      try {
        // The record of the former lock holder precedes the end of its lock, if it was written at all.
        const listed = await this.#tables.resolving.read(dataset, { signal });
        if (listed === undefined) {
          const row = await this.#tables.readRevisionRow({ dataset, manifest: digest }, { signal });
          return row?.modRevision ?? 0;
        }
      } catch {
        signal.throwIfAborted();
      }
      await sleep(this.#context.clock, firstPauseMs, signal);
      signal.throwIfAborted();
    }
  }

  /** Locates a dataset's revision with its current source and credentials. */
  #relocate({ manifest, dataset }: DatasetRevision): void {
    if (!this.#open.has(manifest)) return;
    try {
      this.#locations.renew({ manifest, dataset });
    } catch (thrown) {
      this.#context.logger.error('failed to open the origin of a dataset', { manifest, dataset, error: thrown });
    }
  }
}

/** The search asks agents one after the other, and one of them used up all the time. */
function unanswered(digest: string, cause: HearthError): HearthError {
  if (cause.code !== 'DeadlineExceeded') return cause;
  const message = `the manifest ${digest} is not on this node, and a peer did not answer in time; check the other agents`;
  return new HearthError('Unavailable', message, { cause });
}

function sameSource(before: RevisionRecord | undefined, after: RevisionRecord): boolean {
  return before !== undefined && isDeepStrictEqual(before.source, after.source);
}
