import { createHash } from 'node:crypto';
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { deserialize, serialize } from 'node:v8';
import type { EngineOptions, ManifestBuilder, ManifestInfo, Statistics } from '@hearth/engine';
import { FakeEngine } from '../../node-agent/src/testing/fake_engine.ts';
import { FakeFabric, type FakeManifest } from '../../node-agent/src/testing/fake_fabric.ts';

/** Files of Datasets whose name begins so are on no node at first. */
export const coldPrefix = 'cold';
/** Datasets whose bytes change with each reading of the figures: the node is busy. */
const growing = 2;
const growthBytes = 1n << 20n;
/** So slow that a job outlives every measurement. */
const bytesPerSecond = 1_000;

/** Manifests of all simulated engines of the machine: in memory once a process, in a folder for the others. */
export class ManifestFolder {
  readonly #folder: string;
  readonly #known = new Map<string, FakeManifest>();

  constructor(folder: string) {
    this.#folder = folder;
  }

  put(manifest: FakeManifest): void {
    const { digest } = manifest.info;
    this.#known.set(digest, manifest);
    const path = join(this.#folder, digest);
    writeFileSync(`${path}.${process.pid}`, serialize(manifest));
    renameSync(`${path}.${process.pid}`, path);
  }

  get(digest: string): FakeManifest | undefined {
    const path = join(this.#folder, digest);
    if (!this.#known.has(digest) && existsSync(path)) this.#known.set(digest, deserialize(readFileSync(path)));
    return this.#known.get(digest);
  }
}

/** A fake engine that holds a share of all Datasets from the start, and whose counters never rest. */
export class SimulatedEngine extends FakeEngine {
  readonly #manifests: ManifestFolder;
  readonly #share: number;
  readonly #placed = new Set<string>();
  readonly #growing: string[] = [];
  #readings = 0n;

  constructor(options: EngineOptions, manifests: ManifestFolder, share: number) {
    super(Object.assign(new FakeFabric(), { bytesPerSecond }), options);
    this.#manifests = manifests;
    this.#share = share;
  }

  override async finishManifest(builder: ManifestBuilder): Promise<ManifestInfo> {
    const info = await super.finishManifest(builder);
    this.#manifests.put(this.disk.manifest(info.digest));
    this.#place(info.digest);
    return info;
  }

  override async openManifest(digest: string): Promise<ManifestInfo> {
    const known = this.disk.manifests.get(digest) ?? this.#manifests.get(digest);
    if (known !== undefined) this.disk.manifests.set(digest, known);
    const info = await super.openManifest(digest);
    this.#place(digest);
    return info;
  }

  override async statistics(): Promise<Statistics> {
    this.#readings++;
    for (const key of this.#growing) this.addResident(key, growthBytes);
    return { ...(await super.statistics()), originBytes: this.#readings * growthBytes, demandReads: this.#readings };
  }

  #place(digest: string): void {
    if (this.#placed.has(digest)) return;
    this.#placed.add(digest);
    const { entries } = this.disk.manifest(digest);
    const [file] = entries.filter(({ kind }) => kind === 'file');
    if (file === undefined || file.path.startsWith(coldPrefix)) return;
    const hash = createHash('sha256').update(`${digest} ${this.options.node}`).digest().readUInt32BE();
    if (hash >= this.#share * 2 ** 32) return;
    const grows = this.#growing.length < growing;
    if (grows) this.#growing.push(file.contentKey);
    this.addResident(file.contentKey, grows ? file.size / 2n : file.size);
  }
}
