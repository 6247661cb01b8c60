import { HearthError, sleep, within } from '@hearth/common';
import type { DatasetRevision, EngineEvent } from '@hearth/engine';
import type { AgentContext } from '../context.ts';
import type { Locations } from './locations.ts';
import type { DatasetTables } from './table.ts';

const firstPauseMs = 200;
const longestPauseMs = 10_000;

type KeeperContext = Pick<AgentContext, 'engine' | 'logger' | 'clock' | 'pace'>;

/**
 * Keeps the engine's manifests in step with the datasets: those that appear are fetched from peers, those of
 * removed revisions go. An origin that no longer has what a manifest says fails the dataset.
 */
export class ManifestKeeper {
  readonly #context: KeeperContext;
  readonly #tables: DatasetTables;
  readonly #locations: Locations;
  readonly #stop = new AbortController();
  #complaint = '';
  readonly #fetching = new Map<string, Promise<void>>();
  readonly #open = new Set<string>();
  readonly #openedListeners = new Set<(digest: string) => void>();
  /** Manifests that are in use on this node whatever becomes of their datasets; each with what ends waiting for it. */
  readonly #kept = new Map<string, AbortController>();

  constructor(context: KeeperContext, tables: DatasetTables, locations: Locations) {
    this.#context = context;
    this.#tables = tables;
    this.#locations = locations;
    tables.mirror.onChange(() => this.#fetchMissing());
    tables.revisionsMirror.onChange((changes, { reread }) => {
      // A store that was emptied gets its datasets back: their manifests and locations serve readers until then.
      const emptied = reread && tables.revisionsMirror.rows().length === 0;
      for (const { before, after } of changes) {
        if (before !== undefined && after === undefined && !emptied) void this.#left(before.manifest);
        if (before === undefined && after !== undefined) this.#locateAgain(after);
      }
      this.#fetchMissing();
    });
    this.#fetchMissing();
  }

  isOpen(digest: string): boolean {
    return this.#open.has(digest);
  }

  /** Called when a manifest has become open here. Returns the function that ends it. */
  onOpened(listener: (digest: string) => void): () => void {
    this.#openedListeners.add(listener);
    return () => void this.#openedListeners.delete(listener);
  }

  /** Resolves when the manifest is open here; waits for peers that have it until the signal ends it. */
  async opened(digest: string, signal: AbortSignal): Promise<void> {
    for (let failures = 0; !this.#open.has(digest); failures++) {
      signal.throwIfAborted();
      try {
        await this.#openNow(digest);
      } catch (thrown) {
        const error = HearthError.from(thrown);
        if (error.code !== 'NotFound' && error.code !== 'Unavailable') throw error;
        if (failures > 0) await this.#logMissing(digest, error);
        await sleep(this.#context.clock, Math.min(longestPauseMs, firstPauseMs * 2 ** failures), signal);
        if (signal.aborted) throw error;
      }
    }
  }

  /**
   * As `opened`, for a caller who wants an answer: `NotFound` when no peer has it within `requestMs`, `Unavailable`
   * with the reasons when there are peers that cannot be asked.
   */
  async openedSoon(digest: string, signal: AbortSignal): Promise<void> {
    const { clock, pace } = this.#context;
    try {
      await this.opened(digest, within(clock, pace.requestMs, signal));
    } catch (thrown) {
      throw (await this.#unreachable(digest, HearthError.from(thrown))) ?? thrown;
    }
  }

  /** To add a dataset again is of no use while those that have it and we do not understand one another. */
  async #unreachable(digest: string, error: HearthError): Promise<HearthError | undefined> {
    if (error.code !== 'NotFound' && error.code !== 'Unavailable') return undefined;
    const { peers } = await this.#context.engine.statistics();
    const mute = peers.filter((peer) => !peer.connected && peer.error !== '');
    if (mute.length === 0) return undefined;
    // Each begins with the name of the other side, as far as that is known.
    const reasons = mute.map((peer) => peer.error).join('; ');
    const message = `the manifest ${digest} is not here, and agents that may have it cannot be asked (${reasons})`;
    return new HearthError('Unavailable', message, { cause: error });
  }

  /** The origins of a dataset are opened with the credentials that it has now. */
  credentialsChanged(dataset: string): void {
    for (const revision of this.#tables.revisionsOf(dataset)) this.#locateAgain(revision);
  }

  /** These manifests, and no others, are opened and kept also when no dataset has them as a revision any more. */
  keep(digests: ReadonlySet<string>): void {
    for (const [digest, wait] of [...this.#kept]) {
      if (digests.has(digest)) continue;
      wait.abort();
      this.#kept.delete(digest);
      void this.#left(digest);
    }
    for (const digest of digests) {
      if (this.#kept.has(digest)) continue;
      const wait = new AbortController();
      this.#kept.set(digest, wait);
      this.#fetch(digest, AbortSignal.any([this.#stop.signal, wait.signal]));
    }
  }

  /** What the engine reports: a file of this manifest is not at the origin any more as it was listed. */
  async originChanged(event: Extract<EngineEvent, { kind: 'originChanged' }>): Promise<void> {
    const name = event.dataset;
    if (this.#tables.revision(event) === undefined) return;
    const [entry] = await this.#context.engine.entriesAt(event.manifest, [event.entry]).catch(() => []);
    const message = `the origin no longer has ${entry?.path ?? 'a file'} as it was listed: ${event.message}; add the dataset again to take its present state`;
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

  async #logMissing(digest: string, error: HearthError): Promise<void> {
    const unreachable = await this.#unreachable(digest, error).catch(() => undefined);
    if (unreachable === undefined) {
      this.#context.logger.debug('no peer has the manifest yet', { manifest: digest, error });
      return;
    }
    if (this.#complaint !== unreachable.message)
      this.#context.logger.warn('cannot get a manifest', { error: unreachable });
    this.#complaint = unreachable.message;
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
        this.#context.logger.error('a manifest could not be opened', { manifest, error: HearthError.from(thrown) });
      })
      .finally(() => this.#fetching.delete(manifest));
    this.#fetching.set(manifest, fetching);
  }

  async #openNow(digest: string): Promise<void> {
    await this.#context.engine.openManifest(digest);
    const before = this.#open.has(digest);
    this.#open.add(digest);
    if (!before) for (const listener of this.#openedListeners) listener(digest);
    // Revisions are heard of by a mirror: those that were not there yet are located when they come.
    for (const dataset of this.#tables.datasetsWith(digest)) this.#locateAgain({ manifest: digest, dataset });
  }

  /** A dataset does not need the manifest any more, or no other on this node does. */
  async #left(digest: string): Promise<void> {
    if (this.#kept.has(digest)) return;
    for (const dataset of this.#locations.datasetsWith(digest)) {
      const revision = { manifest: digest, dataset };
      if (this.#tables.revision(revision) === undefined) this.#locations.forget(revision);
    }
    if (this.#tables.isRevision(digest)) return;
    this.#open.delete(digest);
    await this.#context.engine.removeManifest(digest).catch((thrown) => {
      const error = HearthError.from(thrown);
      if (error.code !== 'NotFound')
        this.#context.logger.info('cannot delete an unused manifest yet', { manifest: digest, error });
    });
  }

  /** A dataset has this revision from now on, or other credentials for it. */
  #locateAgain({ manifest, dataset }: DatasetRevision): void {
    if (!this.#open.has(manifest)) return;
    try {
      this.#locations.renew({ manifest, dataset });
    } catch (thrown) {
      this.#context.logger.error('the origin of a dataset cannot be used', { manifest, dataset, error: thrown });
    }
  }
}
