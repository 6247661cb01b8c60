import { HearthError, within } from '@hearth/common';
import type { MountInfo, MountOptions } from '@hearth/engine';
import { z } from 'zod';
import type { AgentContext } from '../context.ts';
import type { DatasetTables, ManifestKeeper } from '../datasets/index.ts';
import { RecordTable } from '../records/index.ts';
import { DepartedNodes } from './departed_nodes.ts';
import { isHearthFuse, unmountForeign } from './kernel_mounts.ts';

/** `mounts/<node>/<target, encoded>`: which dataset a mount of an agent shows; the mount itself is the holder's. */
export const mountSchema = z.object({
  node: z.string(),
  target: z.string(),
  dataset: z.string(),
  manifest: z.string(),
  /** Absent: `fuse` or `view`, as it can be. */
  dataPath: z.literal('daemon').optional(),
});
export type MountRow = z.output<typeof mountSchema>;

/** The engine knows by it whose mount it serves that an earlier agent made. */
const sourcePrefix = 'hearth:';

/** Between tries to reach a holder. */
const firstPauseMs = 100;
const longestPauseMs = 5_000;
/** Why a mount cannot be made now: holder, peers or store may be there later. */
const passing: ReadonlySet<string> = new Set(['Unavailable', 'DeadlineExceeded', 'Cancelled']);

export interface SeenMount extends MountInfo {
  dataset: string;
}

/** Mounts on this node. They belong to the holder and outlive the agent, which takes them over when it starts. */
export class Mounts {
  readonly #context: AgentContext;
  readonly #tables: DatasetTables;
  readonly #keeper: ManifestKeeper;
  readonly #table;
  readonly #departed: DepartedNodes;
  readonly #rows = new Map<string, MountRow>();
  /** Targets that this agent unmounts now. */
  readonly #unmounting = new Set<string>();
  /** Records of an earlier agent whose mounts are not taken over yet. Whoever mounts or unmounts there is newer. */
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
   * Takes over what the holder has for this agent, with the manifests opened first. What neither it nor the holder before
   * could keep is mounted again over what is left of it; records of mounts that are no more are deleted. Without a holder
   * the views alone are taken over, and the rest is tried again until there is one.
   */
  async resume(signal: AbortSignal): Promise<void> {
    const { store, node, engine, logger } = this.#context;
    const { entries } = await store.range(this.#table.key(`${node}/`), { signal });
    const rows = entries.map((entry) => this.#table.decode(entry).value);
    for (const row of rows) this.#inherited.set(row.target, row);
    await Promise.all(rows.map((row) => this.#openQuietly(row, signal)));
    try {
      await this.#takeOver();
    } catch (thrown) {
      const error = HearthError.from(thrown);
      logger.warn('failed to adopt mounts of the holder; retrying', { error });
      const views = new Set((await engine.mounts()).map((mount) => mount.target));
      for (const row of rows) if (views.has(row.target)) this.#rows.set(row.target, row);
      this.#tryAgain(() => this.#takeOver(), firstPauseMs);
    }
    if (this.#rows.size > 0) this.#departed.attend();
  }

  /**
   * Takes over what the holder has for this agent, where that could not be done at the start. False when the holder does
   * not answer. Never fails.
   */
  async retake(): Promise<boolean> {
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
    if (this.#rows.size > 0) this.#departed.attend();
    if (targets.length > 0) this.#context.logger.info('adopted the mounts of the previous agent', { targets });
    const begun = this.#makeAgain(dead, true);
    await begun.catch(() => this.#tryAgain(() => this.#makeAgain(dead, false), firstPauseMs));
  }

  /** Until it succeeds. */
  #tryAgain(work: () => Promise<void>, pauseMs: number): void {
    if (this.#stop.signal.aborted) return;
    this.#cancelAgain = this.#context.clock.schedule(pauseMs, () => {
      this.#takingOver = work().catch(() => this.#tryAgain(work, Math.min(2 * pauseMs, longestPauseMs)));
    });
  }

  async #isServed(target: string): Promise<boolean> {
    return (await this.#context.engine.mounts()).some((mount) => mount.target === target);
  }

  /**
   * FUSE mounts that lost their agent and their holder are dead for ever: they are made again over what is left of them.
   * Throws when one cannot be made now and may be later: until then the kernel gives errors to whoever reads there.
   */
  async #makeAgain(dead: readonly MountRow[], first: boolean): Promise<void> {
    let later: HearthError | undefined;
    for (const row of dead) {
      // Meanwhile unmounted, or mounted for something else.
      if (this.#rows.get(row.target) !== row || (await this.#isServed(row.target))) continue;
      try {
        await this.#mountAgain(row, first);
      } catch (thrown) {
        const error = HearthError.from(thrown);
        if (first) this.#context.logger.error('failed to remount a dead mount', { target: row.target, error });
        // At the start peers that have the manifest may not be known yet.
        if (passing.has(error.code) || (first && error.code === 'NotFound')) later = error;
        else await this.#giveUp(row, error);
      }
    }
    if (later !== undefined) throw later;
  }

  /** `first`: the manifest is not waited for once more. */
  async #mountAgain({ target, manifest, dataset, dataPath }: MountRow, first: boolean): Promise<void> {
    const { engine, logger } = this.#context;
    if (!first) await this.#keeper.openedSoon(manifest, this.#stop.signal);
    const source = `${sourcePrefix}${dataset}`;
    await engine.mount({ target, manifest, dataset, source, dataPath: dataPath ?? 'fuse' });
    logger.warn('remounted a dead mount; programs have lost the files that were open in it', { target, dataset });
  }

  async #giveUp(row: MountRow, { code }: HearthError): Promise<void> {
    const { target } = row;
    if (this.#stop.signal.aborted || this.#rows.get(target) !== row || (await this.#isServed(target))) return;
    // In use: another serves it.
    if (code !== 'InUse') await unmountForeign(target, this.#context.clock, { lazy: true }).catch(() => undefined);
    await this.#forget(target);
  }

  /** `NotFound`, errors of the engine. The mount keeps its revision when the dataset gets a new one. */
  async mount(
    name: string,
    target: string,
    dataPath: MountOptions['dataPath'],
    signal: AbortSignal,
  ): Promise<SeenMount> {
    const { manifest } = await this.#tables.usable(name);
    return await this.mountRevision({ dataset: name, manifest, target, dataPath }, signal);
  }

  /** As `mount`, of a revision that the dataset has or had. */
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
    try {
      const daemon = dataPath === 'daemon' ? { dataPath } : {};
      await this.#record({ node: this.#context.node, target, dataset, manifest, ...daemon });
    } catch (thrown) {
      // Without its record the mount would not be known after a restart: none is better than half of one.
      this.#rows.delete(target);
      await this.#context.engine.unmount(target);
      throw thrown;
    }
    return { ...info, dataset };
  }

  /** Records which dataset a mount shows whose record was lost, or that is shown for another one of the same files. */
  async remember(mount: MountInfo, dataset: string): Promise<void> {
    const { target, manifest } = mount;
    if (this.#rows.get(target)?.dataset === dataset) return;
    await this.#record({ node: this.#context.node, target, dataset, manifest });
  }

  /** Called after mounts of this agent have come or gone. Returns the function that ends it. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Manifests that mounts of any agent show, also of agents that are away but may come back. */
  async manifests(): Promise<Set<string>> {
    const mounts = await this.#all();
    const departed = await this.#departed.among(mounts.map((mount) => mount.node));
    return new Set(mounts.filter((mount) => !departed.has(mount.node)).map((mount) => mount.manifest));
  }

  /** Writes the records of all mounts of this agent again, as after the store was emptied. */
  async rewrite(): Promise<void> {
    for (const row of [...this.#rows.values()]) await this.#table.put(idOf(row), row);
    if (this.#rows.size > 0) this.#departed.attend();
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

  /** All agents' mounts of a dataset, also those of agents that are away: their holders still have them. */
  async of(dataset: string): Promise<MountRow[]> {
    return (await this.#all()).filter((mount) => mount.dataset === dataset);
  }

  /** All agents' mounts of these manifests, of whatever dataset. */
  async showing(manifests: ReadonlySet<string>): Promise<MountRow[]> {
    return (await this.#all()).filter((mount) => manifests.has(mount.manifest));
  }

  /**
   * Forgets those of the mounts whose nodes are not coming back; the others. `present`: all nodes that there are, when
   * the caller knows them.
   */
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

  /** The engine reports that a mount has ended, which no reader wants unless this agent unmounts it. */
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

  async #record(row: MountRow): Promise<void> {
    this.#inherited.delete(row.target);
    this.#rows.set(row.target, row);
    this.#departed.attend();
    this.#changed();
    await this.#table.put(idOf(row), row);
  }

  #datasetOf(mount: MountInfo): string {
    return (
      this.#rows.get(mount.target)?.dataset ?? datasetOf(mount) ?? this.#tables.datasetsWith(mount.manifest)[0] ?? ''
    );
  }

  async #openQuietly(row: MountRow, signal: AbortSignal): Promise<void> {
    const limit = within(this.#context.clock, this.#context.pace.requestMs, signal);
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

/** Of a view that an earlier agent bound the engine does not know whose it is. */
function datasetOf({ source }: MountInfo): string | undefined {
  return source.startsWith(sourcePrefix) ? source.slice(sourcePrefix.length) : undefined;
}

function idOf({ node, target }: Pick<MountRow, 'node' | 'target'>): string {
  return `${node}/${encodeURIComponent(target)}`;
}
