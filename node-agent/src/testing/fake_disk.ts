import { HearthError } from '@hearth/common';
import type { MountInfo, MountOptions, Residency } from '@hearth/engine';
import { type FakeManifest, notFound } from './fake_fabric.ts';

/** The parts of a fake engine that survive its restart: the disk, and the mounts that the holder keeps. */
export class FakeDisk {
  /** How long the disk takes to open a manifest. */
  openManifestMs = 0;
  readonly manifests = new Map<string, FakeManifest>();
  readonly resident = new Map<string, bigint>();
  readonly mounts = new Map<string, MountInfo>();
  /** True when complete manifests can be mounted as views. */
  viewsPossible = false;
  /** The error of the next mount. */
  mountFailure: HearthError | undefined;
  /** Called when the holder gives its mounts; throws where there is none. */
  onResume: () => void = () => {};
  locked = false;
  /** Takes no writes: what arrives stays in memory until it does again. */
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
    const info: MountInfo = {
      target: options.target,
      manifest: options.manifest,
      source: options.source,
      dataPath: view ? 'view' : options.dataPath === 'daemon' ? 'daemon' : 'fuse',
      reason: view ? '' : 'the fake engine has no views',
      readsServed: 0n,
      bytesServed: 0n,
      passthroughOpens: 0n,
      daemonOpens: 0n,
    };
    this.mounts.set(options.target, info);
    return info;
  }
}
