import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { HearthError, isErrorCode } from '@hearth/common';
import type {
  Address,
  DatasetRevision,
  Engine,
  EngineOptions,
  Evicted,
  HolderSight,
  Location,
  MountInfo,
  MountOptions,
  Peer,
  ProxyOptions,
  Residency,
  RevokedTokens,
  VerifyResult,
} from './engine.ts';
import type { ManifestBuilder, ManifestEntry, ManifestInfo } from './manifests.ts';
import type { MirrorPlace, RevisionSource, SourceStatistics } from './sources.ts';
import type { Statistics } from './statistics.ts';
import type {
  PublishedAttributes,
  PublishedContent,
  PublishedFolder,
  VolumeFollowers,
  VolumeLease,
  VolumeLogPosition,
  VolumeOptions,
  VolumeStatistics,
} from './volumes.ts';
import type { WarmOptions, WarmProgress } from './warm.ts';

interface Addon {
  open(options: EngineOptions): Promise<Engine>;
  ManifestBuilder: new (skipUnusable: boolean) => ManifestBuilder;
  ProxyChoice: new (proxies: ProxyOptions) => { of(url: string): string };
  PathFilter: new (include: readonly string[], exclude: readonly string[]) => { matches(path: string): boolean };
}

/** `$HEARTH_ADDON`, else the release build beside the sources. */
function addonPath(): string {
  return process.env.HEARTH_ADDON ?? join(import.meta.dirname, '../../../build/release/binding/hearth.node');
}

let loaded: Addon | undefined;

function loadAddon(): Addon {
  if (loaded) return loaded;
  const path = addonPath();
  if (!existsSync(path)) {
    throw new HearthError(
      'Unsupported',
      `the native engine is not built: ${path} does not exist; run \`make build\` or set HEARTH_ADDON`,
    );
  }
  try {
    loaded = createRequire(import.meta.url)(path) as Addon;
  } catch (error) {
    throw new HearthError('Unsupported', `the native engine ${path} cannot be loaded: ${(error as Error).message}`, {
      cause: error,
    });
  }
  return loaded;
}

/** The addon's errors carry a code of the error table; anything else is a bug of ours. */
function translated(thrown: unknown): HearthError {
  const code = thrown instanceof Error ? (thrown as Error & { code?: unknown }).code : undefined;
  if (thrown instanceof TypeError) return new HearthError('InvalidArgument', thrown.message, { cause: thrown });
  if (typeof code === 'string' && isErrorCode(code)) return new HearthError(code, (thrown as Error).message);
  return HearthError.from(thrown);
}

async function call<T>(work: () => Promise<T> | T): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw translated(error);
  }
}

function callNow<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw translated(error);
  }
}

/**
 * Opens the native engine: locks the cache directories, recovers them, listens. Errors name the option and
 * say what to do. Close it before the process ends; a process that ends all the same joins its threads.
 */
export async function openEngine(options: EngineOptions): Promise<Engine> {
  const addon = loadAddon();
  return new NativeEngine(addon, await call(() => addon.open(options)));
}

/**
 * Chooses paths as .gitignore patterns do: `*` and `?` stay within a name, `**` as a whole part crosses names, `[abc]` and
 * `{a,b}` choose; a pattern without '/' matches the name at any depth, one that names a folder everything below it. No
 * patterns choose everything; exclusion wins. Time is linear in the path whatever the patterns (native/manifest/glob.h).
 */
export class PathFilter {
  /** True when there are no patterns. */
  readonly choosesAll: boolean;
  readonly #native: { matches(path: string): boolean };

  /** `InvalidArgument` names a pattern that cannot be read. */
  constructor(include: readonly string[], exclude: readonly string[] = []) {
    this.choosesAll = include.length === 0 && exclude.length === 0;
    const { PathFilter: Native } = loadAddon();
    this.#native = callNow(() => new Native(include, exclude));
  }

  matches(path: string): boolean {
    return this.choosesAll || this.#native.matches(path);
  }
}

/** Through which proxy an origin is asked: what the engine decides for the same options. */
export class ProxyChoice {
  readonly #native: { of(url: string): string } | undefined;

  /** `InvalidArgument` names the variable of a proxy that cannot be used, without its password. */
  constructor(proxies: ProxyOptions) {
    if (proxies.http === '' && proxies.https === '') return;
    const { ProxyChoice: Native } = loadAddon();
    this.#native = callNow(() => new Native(proxies));
  }

  /** The proxy's URL with its credentials, for a request to this URL; '' where the host is asked directly. */
  of(url: URL): string {
    return this.#native?.of(url.href) ?? '';
  }
}

class NativeEngine implements Engine {
  readonly #addon: Addon;
  readonly #native: Engine;
  #closing: Promise<void> | undefined;

  constructor(addon: Addon, native: Engine) {
    this.#addon = addon;
    this.#native = native;
  }

  addresses(): Address[] {
    return callNow(() => this.#native.addresses());
  }
  close(): Promise<void> {
    this.#closing ??= call(() => this.#native.close());
    return this.#closing;
  }
  setCluster(peers: Peer[]): Promise<void> {
    return call(() => this.#native.setCluster(peers));
  }
  nameDatasets(revisions: DatasetRevision[], awaited: string[]): void {
    callNow(() => this.#native.nameDatasets(revisions, awaited));
  }
  setRevokedTokens(tokens: RevokedTokens): Promise<void> {
    return call(() => this.#native.setRevokedTokens(tokens));
  }
  createManifestBuilder(options: { skipUnusable: boolean }): ManifestBuilder {
    return new this.#addon.ManifestBuilder(options.skipUnusable);
  }
  finishManifest(builder: ManifestBuilder): Promise<ManifestInfo> {
    return call(() => this.#native.finishManifest(builder));
  }
  openManifest(digest: string): Promise<ManifestInfo> {
    return call(() => this.#native.openManifest(digest));
  }
  removeManifest(digest: string): Promise<void> {
    return call(() => this.#native.removeManifest(digest));
  }
  manifests(): Promise<ManifestInfo[]> {
    return call(() => this.#native.manifests());
  }
  entries(
    digest: string,
    options: { path: string; recursive: boolean; offset: number; limit: number },
  ): Promise<ManifestEntry[]> {
    return call(() => this.#native.entries(digest, options));
  }
  entriesAt(digest: string, indices: number[]): Promise<ManifestEntry[]> {
    return call(() => this.#native.entriesAt(digest, indices));
  }
  setMirrors(of: DatasetRevision, mirrors: MirrorPlace[]): void {
    callNow(() => this.#native.setMirrors(of, mirrors));
  }
  setOriginWait(of: DatasetRevision, ms: number): void {
    callNow(() => this.#native.setOriginWait(of, ms));
  }
  sources(of: DatasetRevision): SourceStatistics[] {
    return callNow(() => this.#native.sources(of));
  }
  setOriginBase(of: RevisionSource, base: Pick<Location, 'url' | 'path' | 'below' | 'headers'>): void {
    callNow(() => this.#native.setOriginBase(of, base));
  }
  setLocations(of: RevisionSource, locations: Location[]): void {
    callNow(() => this.#native.setLocations(of, locations));
  }
  failLocations(of: RevisionSource, entries: number[], error: { code: HearthError['code']; message: string }): void {
    callNow(() => this.#native.failLocations(of, entries, error));
  }
  forgetLocations(of: RevisionSource): void {
    callNow(() => this.#native.forgetLocations(of));
  }
  warm(options: WarmOptions): Promise<void> {
    return call(() => this.#native.warm(options));
  }
  warmProgress(job: string): Promise<WarmProgress> {
    return call(() => this.#native.warmProgress(job));
  }
  setWarmRate(job: string, rateLimit: bigint): void {
    callNow(() => this.#native.setWarmRate(job, rateLimit));
  }
  cancelWarm(job: string): Promise<void> {
    return call(() => this.#native.cancelWarm(job));
  }
  residency(digest: string): Promise<Residency> {
    return call(() => this.#native.residency(digest));
  }
  pin(digest: string, entries: number[] | undefined, owner: string): Promise<void> {
    return call(() => this.#native.pin(digest, entries, owner));
  }
  unpin(digest: string, owner: string): Promise<void> {
    return call(() => this.#native.unpin(digest, owner));
  }
  evict(digest: string, entries: number[] | undefined): Promise<Evicted> {
    return call(() => this.#native.evict(digest, entries));
  }
  letGo(digest: string, entries: number[] | undefined, what: 'copy' | 'memory'): Promise<Evicted> {
    return call(() => this.#native.letGo(digest, entries, what));
  }
  setLastUse(digest: string, usedAt: number): void {
    callNow(() => this.#native.setLastUse(digest, usedAt));
  }
  verify(of: DatasetRevision, entry: number, mode: 'cache' | 'origin'): Promise<VerifyResult> {
    return call(() => this.#native.verify(of, entry, mode));
  }
  read(of: DatasetRevision, entry: number, offset: bigint, length: number): Promise<Uint8Array> {
    return call(() => this.#native.read(of, entry, offset, length));
  }
  buildView(digest: string): Promise<string> {
    return call(() => this.#native.buildView(digest));
  }
  mount(options: MountOptions): Promise<MountInfo> {
    return call(() => this.#native.mount(options));
  }
  unmount(target: string): Promise<void> {
    return call(() => this.#native.unmount(target));
  }
  mounts(): Promise<MountInfo[]> {
    return call(() => this.#native.mounts());
  }
  resumeMounts(): Promise<string[]> {
    return call(() => this.#native.resumeMounts());
  }
  holder(socket: string): Promise<HolderSight> {
    return call(() => this.#native.holder(socket));
  }
  setVolumes(volumes: VolumeOptions[]): Promise<void> {
    return call(() => this.#native.setVolumes(volumes));
  }
  setVolumeLeader(id: string, leader: { node: string; epoch: bigint } | undefined): void {
    callNow(() => this.#native.setVolumeLeader(id, leader));
  }
  leadVolume(lease: VolumeLease): Promise<void> {
    return call(() => this.#native.leadVolume(lease));
  }
  extendVolumeLease(lease: VolumeLease): void {
    callNow(() => this.#native.extendVolumeLease(lease));
  }
  resignVolume(id: string): Promise<void> {
    return call(() => this.#native.resignVolume(id));
  }
  setVolumeFollowers(followers: VolumeFollowers): void {
    callNow(() => this.#native.setVolumeFollowers(followers));
  }
  volumeFollowersWanted(id: string, epoch: bigint, known: string[], timeoutMs: bigint): Promise<string[]> {
    return call(() => this.#native.volumeFollowersWanted(id, epoch, known, timeoutMs));
  }
  volumeLogPositions(id: string, epoch: bigint, nodes: string[], timeoutMs: bigint): Promise<VolumeLogPosition[]> {
    return call(() => this.#native.volumeLogPositions(id, epoch, nodes, timeoutMs));
  }
  removeVolume(id: string): Promise<void> {
    return call(() => this.#native.removeVolume(id));
  }
  mountVolume(options: { target: string; id: string; source: string }): Promise<void> {
    return call(() => this.#native.mountVolume(options));
  }
  lookUpInVolume(id: string, path: string): Promise<PublishedAttributes> {
    return call(() => this.#native.lookUpInVolume(id, path));
  }
  listVolumeFolder(id: string, folder: bigint, after: bigint, contents: boolean): Promise<PublishedFolder> {
    return call(() => this.#native.listVolumeFolder(id, folder, after, contents));
  }
  volumeContents(id: string, inodes: readonly bigint[]): Promise<(PublishedContent | undefined)[]> {
    return call(() => this.#native.volumeContents(id, inodes));
  }
  volumeStatistics(): Promise<VolumeStatistics[]> {
    return call(() => this.#native.volumeStatistics());
  }
  statistics(): Promise<Statistics> {
    return call(() => this.#native.statistics());
  }
}
