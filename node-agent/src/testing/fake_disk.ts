import { HearthError } from '@hearth/common';
import type { MountInfo, MountOptions, Residency } from '@hearth/engine';
import { type FakeManifest, notFound } from './fake_fabric.ts';

type Mounting = Pick<MountInfo, 'target' | 'manifest' | 'source' | 'dataPath' | 'reason'>;

/** The state of a fake engine that survives its restart: the disk, and the holder's mounts. */
export class FakeDisk {
  /** Time to open a manifest. */
  openManifestMs = 0;
  readonly manifests = new Map<string, FakeManifest>();
  readonly resident = new Map<string, bigint>();
  readonly mounts = new Map<string, MountInfo>();
  /** The last epoch in the log of each volume that this disk has. */
  readonly volumeLogs = new Map<string, bigint>();
  /** Nodes that a leader with this disk finds late as followers. */
  readonly lateFollowers = new Set<string>();
  /** True when complete manifests can be mounted as views. */
  viewsPossible = false;
  /** Of every manifest, in files that are whole in memory. */
  bytesInMemory = 0n;
  /** False: the kernel has no FUSE passthrough. */
  passthrough = true;
  /** Error of the next mount. */
  mountFailure: HearthError | undefined;
  /** Called when mounts are taken over from the holder; throws to simulate a missing holder. */
  onResume: () => void = () => {};
  locked = false;
  /** Refuses writes: arriving bytes stay in memory until writes are possible again. */
  stopped = false;

  manifest(digest: string): FakeManifest {
    const manifest = this.manifests.get(digest);
    if (manifest === undefined) throw notFound(`manifest ${digest}`);
    return manifest;
  }

  residentOf(key: string): bigint {
    return this.resident.get(key) ?? 0n;
  }

  residency(digest: string): Residency {
    const files = this.manifest(digest).entries.filter((entry) => entry.kind === 'file');
    const complete = files.filter((file) => this.residentOf(file.contentKey) === file.size).length;
    return {
      bytesTotal: files.reduce((sum, file) => sum + file.size, 0n),
      bytesResident: files.reduce((sum, file) => sum + this.residentOf(file.contentKey), 0n),
      bytesInMemory: this.bytesInMemory,
      bytesComingToMemory: 0n,
      filesTotal: files.length,
      filesComplete: complete,
      viewPath: '',
    };
  }

  mount(options: MountOptions): MountInfo {
    const { filesComplete, filesTotal } = this.residency(options.manifest);
    if (this.mountFailure !== undefined) throw this.mountFailure;
    if (this.mounts.has(options.target)) throw new HearthError('InUse', `${options.target} is mounted; unmount first`);
    const view = this.viewsPossible && filesComplete === filesTotal && ['auto', 'view'].includes(options.dataPath);
    if (options.dataPath === 'view' && !view)
      throw new HearthError('Unsupported', 'the fake engine makes no view of this');
    const dataPath = view ? 'view' : options.dataPath === 'daemon' || !this.passthrough ? 'daemon' : 'fuse';
    return this.#mounted({ ...options, dataPath, reason: view ? '' : 'the fake engine has no views' });
  }

  mountVolume({ target, source }: { target: string; source: string }): void {
    if (this.mountFailure !== undefined) throw this.mountFailure;
    if (this.mounts.has(target)) throw new HearthError('InUse', `${target} is mounted; unmount first`);
    this.#mounted({ target, manifest: '', source, dataPath: 'fuse', reason: '' });
  }

  #mounted({ target, manifest, source, dataPath, reason }: Mounting): MountInfo {
    const counts = { readsServed: 0n, bytesServed: 0n, passthroughOpens: 0n, daemonOpens: 0n };
    const info: MountInfo = { target, manifest, source, dataPath, reason, ...counts };
    this.mounts.set(target, info);
    return info;
  }
}
