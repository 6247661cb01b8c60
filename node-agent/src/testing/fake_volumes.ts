import { HearthError } from '@hearth/common';
import type {
  EngineVolumes,
  PublishedAttributes,
  PublishedContent,
  PublishedFolder,
  VolumeFollowers,
  VolumeLease,
  VolumeLogPosition,
  VolumeOptions,
  VolumeStatistics,
} from '@hearth/engine';
import type { FakeDisk } from './fake_disk.ts';
import { notFound } from './fake_fabric.ts';
import type { FakePublishedFiles } from './fake_published_files.ts';

/** Writable volumes of a fake engine: leases and epochs, no files. A follower has its leader's log at once. */
export abstract class FakeVolumes implements EngineVolumes {
  abstract readonly disk: FakeDisk;
  /** The engine of another agent that runs. */
  protected abstract peerVolumes(node: string): FakeVolumes | undefined;
  readonly #followers = new Map<string, { candidates: string[]; waiting: (() => void)[] }>();
  /** All volumes, by id. */
  readonly volumes = new Map<string, VolumeOptions>();
  readonly volumeLeaders = new Map<string, { node: string; epoch: bigint }>();
  /** Terms of this agent, by volume. */
  readonly leases = new Map<string, VolumeLease>();
  /** Every epoch that this agent led, in order. */
  readonly led: { id: string; epoch: bigint }[] = [];
  /** Files by volume, for volumes that a test gives some. */
  readonly published = new Map<string, FakePublishedFiles>();
  /** Error of the next term. */
  leadFailure: HearthError | undefined;
  /** Figures by volume that differ from those of an empty volume. */
  readonly volumeFigures = new Map<string, Partial<VolumeStatistics>>();

  async setVolumes(volumes: VolumeOptions[]): Promise<void> {
    this.volumes.clear();
    for (const volume of volumes) this.volumes.set(volume.id, volume);
    for (const id of [...this.leases.keys()]) if (!this.volumes.has(id)) this.leases.delete(id);
  }

  setVolumeLeader(id: string, leader: { node: string; epoch: bigint } | undefined): void {
    if (leader === undefined) this.volumeLeaders.delete(id);
    else this.volumeLeaders.set(id, leader);
  }

  async leadVolume(lease: VolumeLease): Promise<void> {
    const { id, epoch } = lease;
    if (!this.volumes.has(id)) throw notFound(`volume ${id}`);
    if (this.leadFailure !== undefined) throw this.leadFailure;
    const before = this.disk.volumeLogs.get(id) ?? 0n;
    if (epoch <= before) throw new HearthError('Conflict', `the log has epoch ${before}, which is not below ${epoch}`);
    this.disk.volumeLogs.set(id, epoch);
    this.leases.set(id, lease);
    this.led.push({ id, epoch });
  }

  extendVolumeLease(lease: VolumeLease): void {
    if (this.leases.get(lease.id)?.epoch === lease.epoch) this.leases.set(lease.id, lease);
  }

  async resignVolume(id: string): Promise<void> {
    this.leases.delete(id);
    this.followersChanged();
  }

  setVolumeFollowers({ id, epoch, candidates }: VolumeFollowers): void {
    if (this.leases.get(id)?.epoch !== epoch) return;
    this.#followers.set(id, { candidates, waiting: this.#followers.get(id)?.waiting ?? [] });
    this.followersChanged();
  }

  /** Lets all that wait for lists of followers look again. */
  followersChanged(): void {
    for (const { waiting } of this.#followers.values()) for (const look of waiting.splice(0)) look();
  }

  async volumeFollowersWanted(id: string, epoch: bigint, known: string[]): Promise<string[]> {
    for (;;) {
      const followers = this.#followers.get(id);
      if (this.leases.get(id)?.epoch !== epoch || followers === undefined) {
        throw new HearthError('Unavailable', `volume ${id} is not led in epoch ${epoch}`);
      }
      const wanted = followers.candidates.filter(
        (node) => !this.disk.lateFollowers.has(node) && this.peerVolumes(node) !== undefined,
      );
      for (const node of wanted) this.peerVolumes(node)?.disk.volumeLogs.set(id, epoch);
      wanted.sort();
      if (wanted.join() !== known.join()) return wanted;
      await new Promise<void>((resolve) => followers.waiting.push(resolve));
    }
  }

  async volumeLogPositions(id: string, _epoch: bigint, nodes: string[]): Promise<VolumeLogPosition[]> {
    return nodes.flatMap((node) => {
      const peer = this.peerVolumes(node);
      if (peer === undefined) return [];
      const epoch = peer.disk.volumeLogs.get(id) ?? 0n;
      return [{ node, epoch, record: epoch }];
    });
  }

  async removeVolume(id: string): Promise<void> {
    if (this.volumes.has(id)) throw new HearthError('InUse', `volume ${id} is there`);
    this.disk.volumeLogs.delete(id);
  }

  async mountVolume({ target, id, source }: { target: string; id: string; source: string }): Promise<void> {
    if (!this.volumes.has(id)) throw notFound(`volume ${id}`);
    this.disk.mountVolume({ target, source });
  }

  async lookUpInVolume(id: string, path: string): Promise<PublishedAttributes> {
    return this.#publishedIn(id).lookUp(path);
  }

  async listVolumeFolder(id: string, folder: bigint, after: bigint): Promise<PublishedFolder> {
    return this.#publishedIn(id).list(folder, after);
  }

  async volumeContents(id: string, inodes: readonly bigint[]): Promise<(PublishedContent | undefined)[]> {
    return this.#publishedIn(id).contents(inodes);
  }

  async volumeStatistics(): Promise<VolumeStatistics[]> {
    return [...this.volumes.keys()].map((id) => ({
      id,
      leads: this.leases.has(id),
      epoch: this.leases.get(id)?.epoch ?? 0n,
      error: '',
      bytes: 0n,
      inodes: 0n,
      evictedFiles: 0n,
      evictedYoungFiles: 0n,
      followers: [],
      followersDropped: 0n,
      sessions: 0,
      sessionBytes: 0n,
      overdueRequests: 0n,
      unservedRequests: 0n,
      operations: [],
      ...this.volumeFigures.get(id),
    }));
  }

  #publishedIn(id: string): FakePublishedFiles {
    const published = this.published.get(id);
    if (published === undefined || !this.volumes.has(id)) throw notFound(`volume ${id}`);
    return published;
  }
}
