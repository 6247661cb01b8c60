import { chmod } from 'node:fs/promises';
import { join } from 'node:path';
import { HearthError } from '@hearth/common';
import type { Capability } from '../capabilities/index.ts';
import type { AgentContext } from '../context.ts';
import type { DatasetTables, ManifestKeeper } from '../datasets/index.ts';
import { isMounted, type Mounts, type SeenMount, unmountForeign, volumeName } from '../mounts/index.ts';
import { makeFolder, removeFolder } from './mount_folders.ts';
import { type Kind, MountPaths } from './mount_paths.ts';
import { PublishedFolder } from './published_folder.ts';
import { isNamed, type PublishedRecord, readPublished, type Target, userOf } from './published_record.ts';
import { type Published, publishedRevision, type Wanted } from './published_revision.ts';
import { lostVolumes, volumesCapability } from './rebound_users.ts';

export interface VolumeMountsParts {
  tables: DatasetTables;
  keeper: ManifestKeeper;
  mounts: Mounts;
  /** Resolves when the engine knows the writable volume of a name. Throws `NotFound`. */
  openVolume: (name: string, signal: AbortSignal) => Promise<{ id: string; name: string }>;
}

/**
 * Mounts of revisions for pods, below `<directory>/mounts/<manifest>`: `view` needs no origin and serves all pods of
 * the manifest; `fuse-<dataset>` reads the origin with the dataset's credentials and serves all pods of that revision,
 * or is a writable volume.
 * (`fuse` was made by an earlier version and stays for its pods.) Records in `<directory>/published`, written by the
 * CSI driver without an agent, name the mounts in use; their mounts and manifests are kept.
 */
export class VolumeMounts {
  readonly #context: AgentContext;
  readonly #tables: DatasetTables;
  readonly #keeper: ManifestKeeper;
  readonly #mounts: Mounts;
  readonly #openVolume: VolumeMountsParts['openVolume'];
  readonly #directory: string | undefined;
  readonly #paths: MountPaths;
  /** Per manifest: publishes and removals run one after the other. */
  readonly #turns = new Map<string, Promise<unknown>>();
  /** Per path: clock time since which no record names the mount; a publish resets it. */
  readonly #unnamedSince = new Map<string, number>();
  /** Views mounted again because pods still read them, or whose remount failed. */
  readonly #restored = new Set<string>();
  /** Targets of FUSE mounts being made again, and targets whose failure was logged. */
  readonly #remaking = new Set<string>();
  readonly #warned = new Set<string>();
  #capabilities: Capability[] = [];
  /** A mount showed that this kernel has no FUSE passthrough, so views are faster than files in memory. */
  #withoutPassthrough = false;
  /** Time that a mount stays without a record, ms. */
  #graceMs: number;
  #folder: PublishedFolder | undefined;

  /** `directory`: absolute folder of this cluster on this node; undefined: this agent publishes nothing. */
  constructor(context: AgentContext, parts: VolumeMountsParts, directory: string | undefined) {
    this.#context = context;
    this.#tables = parts.tables;
    this.#keeper = parts.keeper;
    this.#mounts = parts.mounts;
    this.#openVolume = parts.openVolume;
    this.#directory = directory;
    this.#paths = new MountPaths(directory ?? '');
    this.#graceMs = context.timings.unnamedMountMs;
  }

  /** Call after mounts of an earlier agent were taken over. Resolves when all records were read once. */
  async start(): Promise<void> {
    const directory = this.#directory;
    if (directory === undefined) return;
    for (const name of ['mounts', 'published']) await makeFolder(join(directory, name));
    await this.#closeSockets(join(directory, 'run'));
    const listener = (records: PublishedRecord[]) => this.#reconcile(records);
    this.#folder = new PublishedFolder(
      join(directory, 'published'),
      this.#context.timings.publishedScanMs,
      this.#context,
      listener,
    );
    await this.#folder.settled();
  }

  /**
   * Makes a revision readable and returns its path: FUSE while some of it is in memory, which a view does not read, else
   * the view when this node holds every file, else FUSE; reuses an existing mount. `manifest`: '' for the current
   * revision, else a current or former revision of the dataset. `mapsIds`: FUSE in any case, since a container runtime
   * cannot map the ids of a view. The mount stays while a record names its manifest, and for the grace without one.
   * Throws `NotFound`, `Unsupported` without a directory, errors of the engine.
   */
  async publish({ dataset: name, manifest, mapsIds }: Wanted, signal: AbortSignal): Promise<Published> {
    if (this.#directory === undefined) {
      throw new HearthError(
        'Unsupported',
        'this agent publishes no volumes; set volumes.directory to a folder for mounts of pods',
      );
    }
    const volume = volumeName(name);
    if (volume !== undefined) return await this.#publishVolume(name, volume, signal);
    const digest = await publishedRevision(this.#tables, name, manifest);
    await this.#keeper.openedSoon(digest, signal);
    return await this.#inTurn(digest, async () => {
      signal.throwIfAborted();
      this.#touch(digest, name);
      const residency = await this.#context.engine.residency(digest);
      const { bytesTotal, filesTotal, filesComplete, bytesInMemory, bytesComingToMemory } = residency;
      const missing = filesTotal - filesComplete;
      // A complete revision no longer needs its origin.
      if (missing > 0 && manifest === '') await this.#tables.usable(name);
      const incomplete = missing === 0 ? '' : `${missing} of ${filesTotal} files are incomplete on this node`;
      const usesMemory = !mapsIds && missing === 0 && bytesInMemory + bytesComingToMemory > 0n;
      const memory = usesMemory ? await this.#mountedMemory(name, digest, signal) : undefined;
      const { target, dataPath, reason } = mapsIds
        ? await this.#fuse(name, digest, 'the ids of a view cannot be mapped for a user namespace', signal)
        : (memory ?? (await this.#mounted(name, digest, incomplete, signal)));
      this.#touch(digest, name);
      return { path: target, manifest: digest, dataPath, reason, bytes: bytesTotal, files: filesTotal };
    });
  }

  /** A writable volume, for reading and writing. It has no revisions: its id names the mount. */
  async #publishVolume(dataset: string, name: string, signal: AbortSignal): Promise<Published> {
    const { id } = await this.#openVolume(name, signal);
    return await this.#inTurn(id, async () => {
      signal.throwIfAborted();
      this.#touch(id, dataset);
      const { target, dataPath, reason } = await this.#fuse(dataset, id, '', signal);
      this.#touch(id, dataset);
      return { path: target, manifest: id, dataPath, reason, bytes: 0n, files: 0 };
    });
  }

  /**
   * Removes the mounts of a dataset that no record names, without the grace. Returns the users of the remaining mounts,
   * for people. A publish that was answered but not yet recorded loses its mount; its publisher must notice that and
   * publish again.
   */
  async release(dataset: string): Promise<string[]> {
    if (this.#directory === undefined) return [];
    const folder = join(this.#directory, 'published');
    for (const mount of await this.#mounts.list()) {
      const target = this.#paths.targetAt(mount.target);
      if (mount.dataset !== dataset || target === undefined) continue;
      await this.#inTurn(target.manifest, async () => {
        if (!isNamed(target, await readPublished(folder))) await this.#remove(target);
      });
    }
    const records = await readPublished(folder);
    await this.#remember(records);
    return records.filter((record) => record.dataset === dataset).map(userOf);
  }

  /** Reads the records now. Resolves when mounts unnamed for longer than the grace are removed. */
  async scan(): Promise<void> {
    this.#folder?.requestRead();
    await this.#folder?.settled();
  }

  /** Removes mounts without a record at once, because no later agent may run to remove them. */
  async close(): Promise<void> {
    this.#graceMs = 0;
    await this.scan();
    await this.#folder?.close();
    await Promise.all(this.#turns.values());
  }

  /** Closes the folder of the sockets to other users, if it exists: the kubelet creates it open to all users. */
  async #closeSockets(folder: string): Promise<void> {
    await chmod(folder, 0o700).catch((thrown: NodeJS.ErrnoException) => {
      if (thrown.code === 'ENOENT') return;
      throw new HearthError('IoError', `${folder} cannot be closed to others: ${thrown.message}`);
    });
  }

  /** By passthrough onto files in memory; undefined where the kernel has no passthrough. */
  async #mountedMemory(dataset: string, manifest: string, signal: AbortSignal): Promise<SeenMount | undefined> {
    if (this.#withoutPassthrough) return undefined;
    const there = await this.#present(dataset, manifest, 'fuse');
    const mount = there ?? (await this.#mount(dataset, manifest, 'fuse', signal));
    if (mount.dataPath === 'fuse') {
      return { ...mount, reason: 'files of it are in memory, which a view does not read' };
    }
    this.#withoutPassthrough = true;
    if (there === undefined) await this.#mounts.unmount(mount.target);
    return undefined;
  }

  /** `incomplete`: reason why there is no view; '' when this node holds every file. */
  async #mounted(dataset: string, manifest: string, incomplete: string, signal: AbortSignal): Promise<SeenMount> {
    const view = await this.#present(dataset, manifest, 'view');
    if (view !== undefined && (await isMounted(view.target))) return view;
    // A holder that ended, or another process, has detached the view.
    if (view !== undefined) await this.#mounts.unmount(view.target);
    let reason = incomplete;
    if (incomplete === '') {
      try {
        return await this.#mount(dataset, manifest, 'view', signal);
      } catch (thrown) {
        const error = HearthError.from(thrown);
        if (error.code !== 'NotFound' && error.code !== 'Unsupported') throw error;
        reason = error.message;
      }
    }
    return await this.#fuse(dataset, manifest, reason, signal);
  }

  /** `reason`: why the mount is not a view. */
  async #fuse(dataset: string, manifest: string, reason: string, signal: AbortSignal): Promise<SeenMount> {
    const present = await this.#present(dataset, manifest, 'fuse');
    return { ...(present ?? (await this.#mount(dataset, manifest, 'fuse', signal))), reason };
  }

  async #present(dataset: string, manifest: string, kind: Kind): Promise<SeenMount | undefined> {
    const target = this.#paths.of(manifest, kind, dataset);
    return (await this.#mounts.list()).find((mount) => mount.target === target);
  }

  async #mount(dataset: string, manifest: string, kind: Kind, signal: AbortSignal): Promise<SeenMount> {
    const target = this.#paths.of(manifest, kind, dataset);
    if (!(await isMounted(target))) await makeFolder(target);
    else if (kind === 'fuse') {
      const found = await this.#recover(target);
      if (found !== undefined) return found;
    }
    const volume = volumeName(dataset);
    if (volume === undefined) {
      return await this.#mounts.mountRevision({ dataset, manifest, target, dataPath: kind }, signal);
    }
    const opened = await this.#openVolume(volume, signal);
    if (opened.id === manifest) return await this.#mounts.mountVolume(opened, target);
    throw new HearthError('NotFound', `volume ${volume} was deleted; another one has its name`);
  }

  /**
   * Handles a FUSE mount that this agent does not serve: takes it over while the holder has it, else unmounts it,
   * because a mount of a dead holder fails every access.
   */
  async #recover(target: string): Promise<SeenMount | undefined> {
    if (!(await this.#mounts.retryTakeover())) {
      throw new HearthError(
        'Unavailable',
        `the mount at ${target} may be the holder's, which does not answer; start hearth-holder`,
      );
    }
    const found = (await this.#mounts.list()).find((mount) => mount.target === target);
    if (found !== undefined) return found;
    await this.#unmount(target);
    return undefined;
  }

  /** Published volumes of this node as a capability; none before the first read or without volumes. */
  capabilities(): Capability[] {
    return this.#capabilities;
  }

  async #reconcile(records: PublishedRecord[]): Promise<void> {
    const ofDatasets = records.filter(({ dataset }) => volumeName(dataset) === undefined);
    this.#keeper.keep(new Set(ofDatasets.map(({ manifest }) => manifest)));
    const mounts = await this.#remember(records);
    const targets = new Set(mounts.map((mount) => mount.target));
    const isServed = (one: PublishedRecord) => this.#paths.fuse(one).some((path) => targets.has(path));
    this.#capabilities = [volumesCapability(records), ...lostVolumes(records, isServed)];
    this.#restore(records, new Set(mounts.map((mount) => mount.manifest)), isServed);
    const now = this.#context.clock.now();
    const paths = new Set([...(await this.#paths.folders()), ...targets]);
    const known = [...paths].map((path) => this.#paths.targetAt(path)).filter((target) => target !== undefined);
    const unnamed = known.filter((target) => !isNamed(target, records));
    const kept = new Set(unnamed.map(({ path }) => path));
    for (const path of [...this.#unnamedSince.keys()]) if (!kept.has(path)) this.#unnamedSince.delete(path);
    for (const target of unnamed) {
      const since = this.#unnamedSince.get(target.path) ?? now;
      this.#unnamedSince.set(target.path, since);
      if (now - since >= this.#graceMs) await this.#inTurn(target.manifest, () => this.#removeUnlessPublished(target));
    }
  }

  /**
   * Records the mounts of this class. A view whose records name only other datasets of the same files is recorded for
   * one of them, so that it does not block the removal of its former dataset.
   */
  async #remember(records: PublishedRecord[]): Promise<SeenMount[]> {
    const mounts = (await this.#mounts.list()).filter((mount) => this.#paths.targetAt(mount.target) !== undefined);
    for (const mount of mounts) {
      const { manifest, dataset: own } = this.#paths.targetAt(mount.target) ?? mount;
      const datasets = records.filter((one) => one.manifest === manifest).map(({ dataset }) => dataset);
      const shown = own ?? mount.dataset;
      const [dataset] = datasets.includes(shown) ? [shown] : own === undefined ? datasets : [];
      if (dataset === undefined) continue;
      await this.#mounts.remember(mount, dataset, volumeName(dataset) === undefined ? undefined : manifest);
    }
    return mounts;
  }

  /**
   * Repairs mounts that pods use and that are gone. A view's mount may be detached, as by a holder that ended after the
   * former agent; pods keep reading, and a new mount protects the view from eviction; tried once in an agent's life. A
   * FUSE mount may have lost its agent and holder; the CSI driver binds the new mount into the pod; tried at each read
   * of the records until it succeeds. Does not block the caller.
   */
  #restore(
    records: PublishedRecord[],
    mounted: ReadonlySet<string>,
    isServed: (record: PublishedRecord) => boolean,
  ): void {
    for (const record of records) {
      const { dataset, manifest, dataPath } = record;
      const kind: Kind = dataPath === undefined || dataPath === 'view' ? 'view' : 'fuse';
      const target = this.#paths.of(manifest, kind, dataset);
      if (kind === 'view') {
        if (dataPath === undefined || mounted.has(manifest) || this.#restored.has(target)) continue;
        this.#restored.add(target);
      } else {
        if (isServed(record) || this.#remaking.has(target)) continue;
        this.#remaking.add(target);
      }
      void this.#remake(dataset, manifest, kind).finally(() => this.#remaking.delete(target));
    }
  }

  async #remake(dataset: string, manifest: string, kind: Kind): Promise<void> {
    const target = this.#paths.of(manifest, kind, dataset);
    const { logger, clock, timings } = this.#context;
    try {
      await this.#inTurn(manifest, async () => {
        const served = (await this.#mounts.list()).some((mount) => mount.target === target);
        if (!served) await this.#mount(dataset, manifest, kind, clock.timeout(timings.requestMs));
      });
      this.#warned.delete(target);
      logger.info('mounted the dataset of a published volume again', { dataset, manifest, target });
    } catch (thrown) {
      if (this.#warned.has(target)) return;
      this.#warned.add(target);
      const error = HearthError.from(thrown);
      logger.warn(
        kind === 'view' ? 'cannot keep the view of a published volume' : 'the mount of a published volume is missing',
        { dataset, manifest, error },
      );
    }
  }

  /** Marks a mount as just published; its record follows. */
  #touch(manifest: string, dataset: string): void {
    for (const kind of ['view', 'fuse'] as const)
      this.#unnamedSince.set(this.#paths.of(manifest, kind, dataset), this.#context.clock.now());
  }

  async #removeUnlessPublished(target: Target): Promise<void> {
    const since = this.#unnamedSince.get(target.path);
    // Published again while this removal waited for its turn.
    if (since === undefined || this.#context.clock.now() - since < this.#graceMs) return;
    await this.#remove(target);
  }

  /** Runs in the manifest's turn. A mount that is in use after all stays, and the next read tries again. */
  async #remove({ path, manifest }: Target): Promise<void> {
    try {
      await this.#unmount(path);
      await removeFolder(path);
      await removeFolder(join(this.#directory ?? '', 'mounts', manifest));
    } catch (thrown) {
      const error = HearthError.from(thrown);
      this.#context.logger.warn('failed to remove an unused mount yet', { target: path, error });
      return;
    }
    this.#unnamedSince.delete(path);
  }

  /** Throws `InUse` while something is open in the mount. */
  async #unmount(target: string): Promise<void> {
    if (!(await isMounted(target)) && !(await this.#isServed(target))) return;
    await this.#mounts.unmount(target).catch(async (thrown: unknown) => {
      const error = HearthError.from(thrown);
      if (error.code === 'InUse') throw error;
      // Neither the engine nor the holder knows the mount: unmount the rest in the kernel.
      await this.#mounts.ended(target, error.message);
    });
    if (await isMounted(target)) await unmountForeign(target, this.#context.clock);
  }

  async #isServed(target: string): Promise<boolean> {
    return (await this.#context.engine.mounts()).some((mount) => mount.target === target);
  }

  async #inTurn<T>(manifest: string, work: () => Promise<T>): Promise<T> {
    const before = this.#turns.get(manifest) ?? Promise.resolve();
    const turn = before.then(work, work);
    const settled = turn.then(
      () => undefined,
      () => undefined,
    );
    this.#turns.set(manifest, settled);
    try {
      return await turn;
    } finally {
      if (this.#turns.get(manifest) === settled) this.#turns.delete(manifest);
    }
  }
}
