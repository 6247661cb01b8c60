import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { type ErrorCode, HearthError } from '@hearth/common';
import type {
  Address,
  DatasetRevision,
  Engine,
  EngineOptions,
  Evicted,
  HolderSight,
  Location,
  ManifestBuilder,
  ManifestEntry,
  ManifestInfo,
  MirrorPlace,
  MountInfo,
  MountOptions,
  Peer,
  RdmaPeerStatistics,
  Residency,
  RevisionSource,
  RevokedTokens,
  SourceStatistics,
  Statistics,
  VerifyResult,
  WarmOptions,
  WarmProgress,
} from '@hearth/engine';
import { FakeDisk } from './fake_disk.ts';
import { type FakeFabric, notFound } from './fake_fabric.ts';
import { FakeManifestBuilder } from './fake_manifest_builder.ts';
import { fakeStatistics, freshArena, noMemoryFiles, rdmaOff } from './fake_statistics.ts';
import { FakeVolumes } from './fake_volumes.ts';
import { FakeWarm } from './fake_warm.ts';

/** The engine's interface in memory: same states and errors; bytes are only counted. */
export class FakeEngine extends FakeVolumes implements Engine {
  readonly fabric: FakeFabric;
  readonly disk: FakeDisk;
  /** Paths of files whose first block is bad, until they are verified. */
  readonly badBlocks = new Set<string>();
  /** Manifests opened by this process. */
  readonly #opened = new Set<string>();
  readonly options: EngineOptions;
  /** The revisions that clients may name. */
  named: DatasetRevision[] = [];
  revoked: RevokedTokens = { tokens: [], pods: [], namespaces: [] };
  /** Names that clients wait for; undefined: all. */
  awaited: string[] | undefined;
  readonly warms = new Map<string, FakeWarm>();
  /** Bytes by content key that are not on disk yet. */
  readonly #memory = new Map<string, bigint>();
  /** Owners and pinned entries by manifest digest. */
  readonly pins = new Map<string, Map<string, number[] | undefined>>();
  /** By manifest, dataset and source: `revisionKey`. */
  readonly bases = new Map<string, Parameters<Engine['setOriginBase']>[1]>();
  readonly mirrors = new Map<string, MirrorPlace[]>();
  /** Milliseconds. */
  readonly originWaits = new Map<string, number>();
  readonly sourceStatistics = new Map<string, SourceStatistics[]>();
  /** Keyed like `bases`. */
  readonly locations = new Map<string, Map<number, Location>>();
  readonly failedLocations: {
    manifest: string;
    dataset: string;
    entries: number[];
    error: { code: ErrorCode; message: string };
  }[] = [];
  readonly lastUse = new Map<string, number>();
  /** Every rate that was set, in order. */
  readonly rates: { job: string; rate: bigint }[] = [];
  /** Reasons why other agents are not connected, by name. */
  readonly peerErrors = new Map<string, string>();
  /** The targets of DONTNEED, in order. */
  readonly advised: ('copy' | 'memory')[] = [];
  /** True when mounts have open files. */
  busy = false;
  /** The holder's greeting; undefined: no holder. */
  holderSight: HolderSight | undefined;
  arena = freshArena;
  memoryFiles = noMemoryFiles;
  rdma = rdmaOff;
  /** Statistics of RDMA reads, by agent. */
  readonly peerRdma = new Map<string, RdmaPeerStatistics>();
  peers: Peer[] = [];
  closed = false;

  protected peerVolumes(node: string): FakeVolumes | undefined {
    return this.fabric.engines.get(node);
  }

  constructor(fabric: FakeFabric, options: EngineOptions, disk: FakeDisk = new FakeDisk()) {
    super();
    if (disk.locked)
      throw new HearthError('InUse', 'the cache directory is locked by another agent; stop that one first');
    disk.locked = true;
    this.fabric = fabric;
    this.options = options;
    this.disk = disk;
    fabric.engines.set(options.node, this);
  }

  residentOf(key: string): bigint {
    return this.disk.residentOf(key);
  }

  addResident(key: string, bytes: bigint): void {
    this.disk.resident.set(key, this.residentOf(key) + bytes);
  }

  /** Bytes on disk or in memory, which other agents may read. */
  heldOf(key: string): bigint {
    return this.residentOf(key) + (this.#memory.get(key) ?? 0n);
  }

  /** Moves fetched bytes from memory to disk, as far as the disk accepts writes. */
  land(key: string, bytes: bigint): void {
    this.#memory.set(key, (this.#memory.get(key) ?? 0n) + bytes);
    this.writeBehind();
  }

  writeBehind(): void {
    if (this.disk.stopped) return;
    for (const [key, bytes] of this.#memory) this.addResident(key, bytes);
    this.#memory.clear();
  }

  reportChanged(warm: FakeWarm, { manifest, dataset }: DatasetRevision, entry: number): void {
    const message = 'the ETag differs from the one in the manifest';
    warm.fail(new HearthError('OriginChanged', message));
    this.options.onEvent({ kind: 'originChanged', manifest, dataset, entry, message });
  }

  addresses(): Address[] {
    return this.options.listen.map((address, index) => ({ ...address, port: address.port || 40_000 + index }));
  }

  async close(): Promise<void> {
    this.closed = true;
    for (const warm of this.warms.values()) warm.cancel();
    this.disk.locked = false;
    if (this.fabric.engines.get(this.options.node) === this) this.fabric.engines.delete(this.options.node);
  }

  async setCluster(peers: Peer[]): Promise<void> {
    this.peers = peers;
  }

  nameDatasets(revisions: DatasetRevision[], awaited: string[]): void {
    for (const { manifest } of revisions) if (!this.#opened.has(manifest)) throw notFound(`open manifest ${manifest}`);
    this.named = revisions;
    this.awaited = awaited;
  }

  async setRevokedTokens(tokens: RevokedTokens): Promise<void> {
    this.revoked = tokens;
  }

  createManifestBuilder({ skipUnusable }: { skipUnusable: boolean }): ManifestBuilder {
    return new FakeManifestBuilder(skipUnusable);
  }

  async finishManifest(builder: ManifestBuilder): Promise<ManifestInfo> {
    const manifest = (builder as FakeManifestBuilder).finish();
    this.#opened.add(manifest.info.digest);
    this.disk.manifests.set(manifest.info.digest, manifest);
    return manifest.info;
  }

  async openManifest(digest: string): Promise<ManifestInfo> {
    if (this.disk.openManifestMs > 0) await sleep(this.disk.openManifestMs);
    const here = this.disk.manifests.get(digest);
    if (here !== undefined) this.#opened.add(digest);
    if (here !== undefined) return here.info;
    for (const peer of this.peers) {
      const found = peer.ready ? this.fabric.engines.get(peer.node)?.disk.manifests.get(digest) : undefined;
      if (found === undefined) continue;
      this.disk.manifests.set(digest, found);
      this.#opened.add(digest);
      return found.info;
    }
    throw notFound(`manifest ${digest}`);
  }

  async removeManifest(digest: string): Promise<void> {
    this.disk.manifests.delete(digest);
    this.#opened.delete(digest);
  }

  async manifests(): Promise<ManifestInfo[]> {
    return [...this.disk.manifests.values()].map((manifest) => manifest.info);
  }

  async entries(
    digest: string,
    options: { path: string; recursive: boolean; offset: number; limit: number },
  ): Promise<ManifestEntry[]> {
    const below = options.path === '' ? '' : `${options.path}/`;
    const chosen = this.disk.manifest(digest).entries.filter((entry) => {
      if (!entry.path.startsWith(below)) return false;
      return options.recursive ? entry.kind === 'file' : !entry.path.slice(below.length).includes('/');
    });
    return chosen.slice(options.offset, options.offset + options.limit).map((entry) => this.#withResidency(entry));
  }

  async entriesAt(digest: string, indexes: number[]): Promise<ManifestEntry[]> {
    const { entries } = this.disk.manifest(digest);
    return indexes.map((index) => {
      const entry = entries[index - 1];
      if (entry === undefined) throw new HearthError('InvalidArgument', `the manifest has no entry ${index}`);
      return this.#withResidency(entry);
    });
  }

  setMirrors(of: DatasetRevision, mirrors: MirrorPlace[]): void {
    this.mirrors.set(revisionKey(of), mirrors);
  }

  setOriginWait(of: DatasetRevision, ms: number): void {
    this.originWaits.set(revisionKey(of), ms);
  }

  sources(of: DatasetRevision): SourceStatistics[] {
    return this.sourceStatistics.get(revisionKey(of)) ?? [];
  }

  setOriginBase(of: RevisionSource, base: Parameters<Engine['setOriginBase']>[1]): void {
    this.bases.set(revisionKey(of), base);
  }

  setLocations(of: RevisionSource, locations: Location[]): void {
    const known = this.locations.get(revisionKey(of)) ?? new Map<number, Location>();
    this.locations.set(revisionKey(of), known);
    for (const location of locations) known.set(location.entry, location);
  }

  failLocations(of: RevisionSource, entries: number[], error: { code: ErrorCode; message: string }): void {
    this.failedLocations.push({ ...of, entries, error });
  }

  forgetLocations(of: RevisionSource): void {
    this.bases.delete(revisionKey(of));
    this.locations.delete(revisionKey(of));
  }

  async warm(options: WarmOptions): Promise<void> {
    if (this.warms.has(options.job)) throw new HearthError('AlreadyExists', `job ${options.job} is there already`);
    this.warms.set(options.job, new FakeWarm(this, options, this.disk.manifest(options.manifest)));
    this.rates.push({ job: options.job, rate: options.rateLimit });
  }

  async warmProgress(job: string): Promise<WarmProgress> {
    return { ...this.#warmOf(job).progress };
  }

  setWarmRate(job: string, rateLimit: bigint): void {
    this.#warmOf(job).rateLimit = rateLimit;
    this.rates.push({ job, rate: rateLimit });
  }

  async cancelWarm(job: string): Promise<void> {
    const warm = this.#warmOf(job);
    if (warm.running) warm.cancel();
    else this.warms.delete(job);
  }

  async residency(digest: string): Promise<Residency> {
    return this.disk.residency(digest);
  }

  async pin(digest: string, entries: number[] | undefined, owner: string): Promise<void> {
    this.disk.manifest(digest);
    const owners = this.pins.get(digest) ?? new Map<string, number[] | undefined>();
    this.pins.set(digest, owners.set(owner, entries));
  }

  async unpin(digest: string, owner: string): Promise<void> {
    this.pins.get(digest)?.delete(owner);
  }

  async evict(digest: string, entries: number[] | undefined): Promise<Evicted> {
    const wanted = entries === undefined ? undefined : new Set(entries);
    const pinned = [...(this.pins.get(digest)?.values() ?? [])];
    const result = {
      bytesFreed: 0n,
      filesFreed: 0,
      memoryBytesFreed: 0n,
      kept: 0,
      pinned: 0,
      inUse: 0,
      published: 0,
    };
    for (const entry of this.disk.manifest(digest).entries) {
      const resident = this.residentOf(entry.contentKey);
      if (entry.kind !== 'file' || resident === 0n || wanted?.has(entry.index) === false) continue;
      if (pinned.some((one) => one === undefined || one.includes(entry.index))) {
        result.kept++;
        result.pinned++;
        continue;
      }
      this.disk.resident.delete(entry.contentKey);
      result.bytesFreed += resident;
      result.filesFreed++;
    }
    return result;
  }

  async letGo(digest: string, entries: number[] | undefined, what: 'copy' | 'memory'): Promise<Evicted> {
    this.advised.push(what);
    if (what === 'copy') return await this.evict(digest, entries);
    return { ...(await this.evict(digest, [])), memoryBytesFreed: 1n };
  }

  setLastUse(digest: string, usedAt: number): void {
    if (!this.#opened.has(digest)) throw notFound(`open manifest ${digest}`);
    this.lastUse.set(digest, usedAt);
  }

  async verify({ manifest }: DatasetRevision, entry: number): Promise<VerifyResult> {
    const [file] = await this.entriesAt(manifest, [entry]);
    const size = file?.size ?? 0n;
    const missing = size - this.residentOf(file?.contentKey ?? '');
    if (file !== undefined) this.addResident(file.contentKey, missing);
    return {
      bytes: size,
      sha256: file?.sourceDigest || sha256(file?.path ?? ''),
      originBytes: missing,
      peerBytes: 0n,
      repairedBlocks: this.badBlocks.delete(file?.path ?? '') ? 1n : 0n,
      repaired: 'block 0',
    };
  }

  /** Byte number i of every file is i modulo 256. */
  async read({ manifest }: DatasetRevision, entry: number, offset: bigint, length: number): Promise<Uint8Array> {
    const [file] = await this.entriesAt(manifest, [entry]);
    const end = Math.min(Number(file?.size ?? 0n), Number(offset) + length);
    return Uint8Array.from({ length: Math.max(0, end - Number(offset)) }, (_, at) => (Number(offset) + at) % 256);
  }

  async buildView(): Promise<string> {
    throw new HearthError('Unsupported', 'the fake engine has no views');
  }

  async mount(options: MountOptions): Promise<MountInfo> {
    return this.disk.mount(options);
  }

  async unmount(target: string): Promise<void> {
    if (this.busy) throw new HearthError('InUse', `${target} has open files; end their processes`);
    if (!this.disk.mounts.delete(target)) throw notFound(`mount ${target}`);
  }

  async mounts(): Promise<MountInfo[]> {
    return [...this.disk.mounts.values()];
  }

  async resumeMounts(): Promise<string[]> {
    const targets = [...this.disk.mounts.keys()];
    this.disk.onResume();
    return targets;
  }

  async holder(): Promise<HolderSight> {
    if (this.holderSight === undefined) throw new HearthError('Unavailable', 'no mount holder');
    return this.holderSight;
  }

  async statistics(): Promise<Statistics> {
    return fakeStatistics(this);
  }

  #warmOf(job: string): FakeWarm {
    const warm = this.warms.get(job);
    if (warm === undefined) throw notFound(`job ${job}`);
    return warm;
  }

  #withResidency(entry: Omit<ManifestEntry, 'residentBytes'>): ManifestEntry {
    return { ...entry, residentBytes: this.residentOf(entry.contentKey) };
  }
}

export function revisionKey({ manifest, dataset, source = 0 }: RevisionSource): string {
  return `${manifest}/${dataset}${source === 0 ? '' : `/${source}`}`;
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
