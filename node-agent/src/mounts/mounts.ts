import { HearthError, within } from '@hearth/common';
import type { MountInfo, MountOptions } from '@hearth/engine';
import { z } from 'zod';
import type { AgentContext } from '../context.ts';
import type { DatasetTables, ManifestKeeper } from '../datasets/index.ts';
import { RecordTable } from '../records/index.ts';
import { DepartedNodes } from './departed_nodes.ts';
import { isHearthFuse, unmountForeign } from './kernel_mounts.ts';

/** `mounts/<node>/<target, encoded>`: the dataset or volume of an agent's mount; the holder owns the mount itself. */
export const mountSchema = z.object({
  node: z.string(),
  target: z.string(),
  /** `volume:` and a name for a writable volume, which has no manifest. */
  dataset: z.string(),
  manifest: z.string(),
  /** Id of the writable volume; absent: of a dataset. */
  volume: z.string().optional(),
  /** Absent: `fuse` or `view`, whichever is possible. */
  dataPath: z.literal('daemon').optional(),
});
export type MountRow = z.output<typeof mountSchema>;

/** Marks mounts for the engine that takes over mounts of an earlier agent. */
const sourcePrefix = 'hearth:';

/** Before the names of writable volumes, where those of datasets may stand; dataset names have no colon. */
export const volumePrefix = 'volume:';

/** The name of a writable volume; undefined for a dataset. */
export function volumeName(dataset: string): string | undefined {
  return dataset.startsWith(volumePrefix) ? dataset.slice(volumePrefix.length) : undefined;
}

/** First pause between attempts to reach a holder. */
const firstPauseMs = 100;
const maxPauseMs = 5_000;
/** Transient errors: the holder, peers or the store may come back. */
const passing: ReadonlySet<string> = new Set(['Unavailable', 'DeadlineExceeded', 'Cancelled']);

export interface SeenMount extends MountInfo {
  dataset: string;
}

/** Mounts on this node. The holder owns them; they outlive the agent, and the next agent takes them over. */
export class Mounts {
  readonly #context: AgentContext;
  readonly #tables: DatasetTables;
  readonly #keeper: ManifestKeeper;
  readonly #table;
  readonly #departed: DepartedNodes;
  readonly #rows = new Map<string, MountRow>();
  /** Targets that this agent is unmounting. */
  readonly #unmounting = new Set<string>();
  /** Records of an earlier agent whose mounts are not taken over yet. A newer mount or unmount at a target wins. */
  readonly #inherited = new Map<string, MountRow>();
  readonly #listeners = new Set<() => void>();
  #cancelAgain: (() => void) | undefined;
  #takingOver: Promise<void> | undefined;
  readonly #stop = new AbortController();

  constructor(context: AgentContext, tables: DatasetTables, keeper: ManifestKeeper) {
    this.#context = context;
    this.#tables = tables;
    this.#keeper = keeper;
    this.#table = new RecordTable(context.store, 'mounts/', mountSchema);
    this.#departed = new DepartedNodes(context);
  }

  /**
   * Takes over the holder's mounts for this agent, after opening their manifests. Mounts that no holder could keep are
   * mounted again over their remains; records of vanished mounts are deleted. Without a holder, takes over views only
   * and retries the rest until a holder answers.
   */
  async resume(signal: AbortSignal): Promise<void> {
    const { store, node, engine, logger } = this.#context;
    const { entries } = await store.range(this.#table.key(`${node}/`), { signal });
    const rows = entries.map((entry) => this.#table.decode(entry).value);
    for (const row of rows) this.#inherited.set(row.target, row);
    const ofDatasets = rows.filter(({ volume }) => volume === undefined);
    await Promise.all(ofDatasets.map((row) => this.#openQuietly(row, signal)));
    try {
      await this.#takeOver();
    } catch (thrown) {
      const error = HearthError.from(thrown);
      logger.warn('failed to adopt mounts of the holder; retrying', { error });
      const views = new Set((await engine.mounts()).map((mount) => mount.target));
      for (const row of rows) if (views.has(row.target)) this.#rows.set(row.target, row);
      this.#retry(() => this.#takeOver(), firstPauseMs);
    }
    if (this.#rows.size > 0) this.#departed.startHeartbeat();
  }

  /**
   * Takes over the holder's mounts if that failed at the start. Returns false when the holder does not answer. Never
   * throws.
   */
  async retryTakeover(): Promise<boolean> {
    try {
      await this.#context.engine.resumeMounts();
      return true;
    } catch (thrown) {
      const error = HearthError.from(thrown);
      this.#context.logger.warn('failed to adopt mounts of the holder', { error });
      return false;
    }
  }

  async #takeOver(): Promise<void> {
    const targets = await this.#context.engine.resumeMounts();
    const dead: MountRow[] = [];
    for (const row of [...this.#inherited.values()]) {
      const { target } = row;
      const served = targets.includes(target) || (await this.#isServed(target));
      const left = served || (await isHearthFuse(target));
      if (this.#inherited.get(target) !== row) continue;
      if (!left) {
        await this.#forget(target);
        continue;
      }
      this.#rows.set(target, row);
      if (!served) dead.push(row);
    }
    this.#inherited.clear();
    if (this.#rows.size > 0) this.#departed.startHeartbeat();
    if (targets.length > 0) this.#context.logger.info('adopted the mounts of the previous agent', { targets });
    const begun = this.#remountDead(dead, true);
    await begun.catch(() => this.#retry(() => this.#remountDead(dead, false), firstPauseMs));
  }

  /** Retries until success. */
  #retry(work: () => Promise<void>, pauseMs: number): void {
    if (this.#stop.signal.aborted) return;
    this.#cancelAgain = this.#context.clock.schedule(pauseMs, () => {
      this.#takingOver = work().catch(() => this.#retry(work, Math.min(2 * pauseMs, maxPauseMs)));
    });
  }

  async #isServed(target: string): Promise<boolean> {
    return (await this.#context.engine.mounts()).some((mount) => mount.target === target);
  }

  /**
   * Mounts dead FUSE mounts, whose agent and holder are gone, again over their remains. Throws on a transient failure;
   * until a later attempt succeeds, readers get errors from the kernel.
   */
  async #remountDead(dead: readonly MountRow[], first: boolean): Promise<void> {
    let later: HearthError | undefined;
    for (const row of dead) {
      // Meanwhile unmounted, or mounted for another dataset.
      if (this.#rows.get(row.target) !== row || (await this.#isServed(row.target))) continue;
      try {
        await this.#remount(row, first);
      } catch (thrown) {
        const error = HearthError.from(thrown);
        if (first) this.#context.logger.error('failed to remount a dead mount', { target: row.target, error });
        // At the start the agent may not know the peers that have the manifest.
        if (passing.has(error.code) || (first && error.code === 'NotFound')) later = error;
        else await this.#abandon(row, error);
      }
    }
    if (later !== undefined) throw later;
  }

  /** `first`: skips the wait for the manifest, which the caller has tried to open. */
  async #remount({ target, manifest, dataset, volume, dataPath }: MountRow, first: boolean): Promise<void> {
    const { engine, logger } = this.#context;
    const source = `${sourcePrefix}${dataset}`;
    if (volume === undefined) {
      if (!first) await this.#keeper.openedSoon(manifest, this.#stop.signal);
      await engine.mount({ target, manifest, dataset, source, dataPath: dataPath ?? 'fuse' });
    } else {
      await engine.mountVolume({ target, id: volume, source });
    }
    logger.warn('remounted a dead mount; programs have lost the files that were open in it', { target, dataset });
  }

  async #abandon(row: MountRow, { code }: HearthError): Promise<void> {
    const { target } = row;
    if (this.#stop.signal.aborted || this.#rows.get(target) !== row || (await this.#isServed(target))) return;
    // In use: another process serves the mount.
    if (code !== 'InUse') await unmountForeign(target, this.#context.clock, { lazy: true }).catch(() => undefined);
    await this.#forget(target);
  }

  /** Throws `NotFound` and errors of the engine. The mount keeps its revision when the dataset gets a new one. */
  async mount(
    name: string,
    target: string,
    dataPath: MountOptions['dataPath'],
    signal: AbortSignal,
  ): Promise<SeenMount> {
    const { manifest } = await this.#tables.usable(name);
    return await this.mountRevision({ dataset: name, manifest, target, dataPath }, signal);
  }

  /** Like `mount`, for a current or former revision of the dataset. */
  async mountRevision(
    what: { dataset: string; manifest: string; target: string; dataPath: MountOptions['dataPath'] },
    signal: AbortSignal,
  ): Promise<SeenMount> {
    const { dataset, manifest, target, dataPath } = what;
    await this.#keeper.openedSoon(manifest, signal);
    const source = `${sourcePrefix}${dataset}`;
    const info = await this.#context.engine.mount({
      target,
      manifest,
      dataset,
      source,
      dataPath,
    });
    const daemon = dataPath === 'daemon' ? { dataPath } : {};
    await this.#recordOrUndo({ node: this.#context.node, target, dataset, manifest, ...daemon });
    return { ...info, dataset };
  }

  /** Mounts a writable volume for reading and writing. Throws errors of the engine. */
  async mountVolume({ id, name }: { id: string; name: string }, target: string): Promise<SeenMount> {
    const { engine, node } = this.#context;
    const dataset = `${volumePrefix}${name}`;
    await engine.mountVolume({ target, id, source: `${sourcePrefix}${dataset}` });
    await this.#recordOrUndo({ node, target, dataset, manifest: '', volume: id });
    const info = (await this.list()).find((mount) => mount.target === target);
    if (info === undefined) throw new HearthError('IoError', `the mount at ${target} ended as soon as it began`);
    return info;
  }

  /**
   * Records the dataset of a mount whose record was lost, or that now shows another dataset of the same files. `volume`:
   * the id of a writable one.
   */
  async remember(mount: MountInfo, dataset: string, volume?: string): Promise<void> {
    const { target, manifest } = mount;
    if (this.#rows.get(target)?.dataset === dataset) return;
    await this.#record({ node: this.#context.node, target, dataset, manifest, ...(volume ? { volume } : {}) });
  }

  /** Calls the listener after mounts of this agent were added or removed. Returns a function that unsubscribes. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Manifests shown by mounts of any agent, including absent agents that may come back. */
  async manifests(): Promise<Set<string>> {
    const mounts = await this.#all();
    const departed = await this.#departed.among(mounts.map((mount) => mount.node));
    return new Set(mounts.filter((mount) => !departed.has(mount.node)).map((mount) => mount.manifest));
  }

  /** Writes the records of all mounts of this agent again, as after the store was emptied. */
  async rewrite(): Promise<void> {
    for (const row of [...this.#rows.values()]) await this.#table.put(idOf(row), row);
    if (this.#rows.size > 0) this.#departed.startHeartbeat();
  }

  async unmount(target: string): Promise<void> {
    this.#unmounting.add(target);
    try {
      await this.#context.engine.unmount(target);
    } finally {
      this.#unmounting.delete(target);
    }
    await this.#forget(target);
  }

  async list(): Promise<SeenMount[]> {
    const mounts = await this.#context.engine.mounts();
    return mounts.map((mount) => ({ ...mount, dataset: this.#datasetOf(mount) }));
  }

  /** All agents' mounts of a dataset, including absent agents, whose holders keep the mounts. */
  async of(dataset: string): Promise<MountRow[]> {
    return (await this.#all()).filter((mount) => mount.dataset === dataset);
  }

  /** All agents' mounts of these manifests, of any dataset. */
  async showing(manifests: ReadonlySet<string>): Promise<MountRow[]> {
    return (await this.#all()).filter((mount) => manifests.has(mount.manifest));
  }

  /** Deletes records of mounts on departed nodes and returns the remaining mounts. `present`: all nodes, if known. */
  async withoutDeparted(mounts: readonly MountRow[], present?: ReadonlySet<string>): Promise<MountRow[]> {
    const nodes = mounts.map((mount) => mount.node);
    const departed = await this.#departed.among(nodes, present);
    const gone = mounts.filter((mount) => departed.has(mount.node));
    for (const row of gone) await this.#table.delete(idOf(row));
    if (gone.length > 0)
      this.#context.logger.info('deleted the records of mounts of nodes that are gone', { mounts: gone });
    return mounts.filter((mount) => !departed.has(mount.node));
  }

  async close(): Promise<void> {
    this.#stop.abort();
    this.#cancelAgain?.();
    await this.#takingOver;
    await this.#departed.close();
  }

  /** Handles the engine's report that a mount has ended, which is unexpected unless this agent unmounts it. */
  async ended(target: string, reason: string): Promise<void> {
    if (!this.#unmounting.has(target)) {
      this.#context.logger.warn('a mount of this agent ended, though the agent did not unmount it', { target, reason });
    }
    await this.#forget(target);
  }

  async #all(): Promise<MountRow[]> {
    const { rows } = await this.#table.list((error) =>
      this.#context.logger.error('ignoring a malformed record', { error }),
    );
    return rows.map((row) => row.value);
  }

  /** A restart would lose a mount without a record. */
  async #recordOrUndo(row: MountRow): Promise<void> {
    try {
      await this.#record(row);
    } catch (thrown) {
      this.#rows.delete(row.target);
      await this.#context.engine.unmount(row.target);
      throw thrown;
    }
  }

  async #record(row: MountRow): Promise<void> {
    this.#inherited.delete(row.target);
    this.#rows.set(row.target, row);
    this.#departed.startHeartbeat();
    this.#changed();
    await this.#table.put(idOf(row), row);
  }

  #datasetOf(mount: MountInfo): string {
    return (
      this.#rows.get(mount.target)?.dataset ?? datasetOf(mount) ?? this.#tables.datasetsWith(mount.manifest)[0] ?? ''
    );
  }

  async #openQuietly(row: MountRow, signal: AbortSignal): Promise<void> {
    const limit = within(this.#context.clock, this.#context.timings.requestMs, signal);
    await this.#keeper.opened(row.manifest, limit).catch((thrown) => {
      this.#context.logger.error('failed to load the manifest of a mount', {
        target: row.target,
        error: HearthError.from(thrown),
      });
    });
  }

  #changed(): void {
    for (const listener of [...this.#listeners]) listener();
  }

  async #forget(target: string): Promise<void> {
    this.#inherited.delete(target);
    this.#rows.delete(target);
    this.#changed();
    await this.#table.delete(idOf({ node: this.#context.node, target })).catch((thrown) => {
      this.#context.logger.warn('failed to delete the record of a mount', { target, error: HearthError.from(thrown) });
    });
  }
}

/** The engine does not know the dataset of a view that an earlier agent bound. */
function datasetOf({ source }: MountInfo): string | undefined {
  return source.startsWith(sourcePrefix) ? source.slice(sourcePrefix.length) : undefined;
}

function idOf({ node, target }: Pick<MountRow, 'node' | 'target'>): string {
  return `${node}/${encodeURIComponent(target)}`;
}
