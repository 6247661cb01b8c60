import { HearthError } from '@hearth/common';
import { type EventRecorder, type KubernetesClient, kinds, type ReconcileResult } from '@hearth/common/kubernetes';
import { finalizerName } from '@hearth/common/resources';
import { planVolume, type VolumeAction, type VolumeView } from './volume_plan.ts';
import type { Volumes } from './volumes.ts';

export interface VolumeReconcilerOptions {
  api: Pick<KubernetesClient, 'get' | 'delete' | 'patch'>;
  events: Pick<EventRecorder, 'eventFor'>;
  volumes: Volumes;
  volume(name: string): VolumeView | undefined;
  /** There is a StorageCluster of this name. */
  hasCluster(name: string): boolean;
  /** Milliseconds since the epoch. Absent: the time of day. */
  now?: () => number;
}

/** How soon agents that are away are asked again. */
const awayMs = 30_000;
/** A deletion waits this long for agents that cannot be reached, then it ends without them. */
const patienceMs = 300_000;

/** Deletes volumes whose claims have gone, as their reclaim policy says, and has agents know the others. */
export class VolumeReconciler {
  readonly #options: VolumeReconcilerOptions;
  /** Since when agents have not answered the deletion of a volume, by its uid. */
  readonly #waiting = new Map<string, number>();

  constructor(options: VolumeReconcilerOptions) {
    this.#options = options;
  }

  async reconcile(name: string, signal: AbortSignal): Promise<ReconcileResult> {
    const volume = this.#options.volume(name);
    let result: ReconcileResult = {};
    for (const action of planVolume(volume)) {
      if (volume !== undefined) result = (await this.#apply(action, volume, signal)) ?? result;
    }
    return result;
  }

  async #apply(action: VolumeAction, volume: VolumeView, signal: AbortSignal): Promise<ReconcileResult | undefined> {
    switch (action.kind) {
      case 'ensureVolume':
        return await this.#ensureVolume(volume, signal);
      case 'deleteVolume':
        await this.#deleteVolume(volume, signal);
        return;
      case 'deleteObject': {
        const { name, uid } = volume;
        await this.#options.api.delete(kinds.PersistentVolume, name, undefined, { preconditions: { uid }, signal });
        return;
      }
      case 'removeFinalizer':
        await this.#removeFinalizer(volume, signal);
        return;
    }
  }

  /** No pod waits for this, so agents that are away are no failure. */
  async #ensureVolume(volume: VolumeView, signal: AbortSignal): Promise<ReconcileResult | undefined> {
    if (!this.#options.hasCluster(volume.cluster)) return;
    try {
      await this.#options.volumes.ensure(volume, signal);
    } catch (thrown) {
      const { code } = HearthError.from(thrown);
      if (code !== 'Unavailable' && code !== 'DeadlineExceeded') throw thrown;
      return { requeueAfterMs: awayMs };
    }
    return;
  }

  /** A record of a cluster that is gone is gone too, and agents that stay away hold nothing up for ever. */
  async #deleteVolume(volume: VolumeView, signal: AbortSignal): Promise<void> {
    const { cluster, handle, name, uid } = volume;
    if (!this.#options.hasCluster(cluster)) return;
    const report = (reason: string, message: string) => {
      const object = { metadata: { name, uid } };
      this.#options.events.eventFor(kinds.PersistentVolume, object, 'Warning', reason, message);
    };
    try {
      await this.#options.volumes.delete(cluster, handle, signal);
    } catch (thrown) {
      const error = HearthError.from(thrown);
      if (!this.#isGivenUp(uid, error, signal)) {
        report('VolumeFailedDelete', error.message);
        throw thrown;
      }
      report(
        'DeletedWithoutAgents',
        `agents of StorageCluster ${cluster} did not forget the volume (${error.message}); its record there holds no bytes`,
      );
    }
  }

  /** Remembered until the finalizer has gone: the object is deleted in two steps, and waits but once. */
  #isGivenUp(uid: string, { code }: HearthError, signal: AbortSignal): boolean {
    if (signal.aborted || (code !== 'Unavailable' && code !== 'DeadlineExceeded')) return false;
    const { now = Date.now } = this.#options;
    const since = this.#waiting.get(uid) ?? now();
    this.#waiting.set(uid, since);
    return now() - since >= patienceMs;
  }

  async #removeFinalizer({ name, uid }: VolumeView, signal: AbortSignal): Promise<void> {
    const present = await this.#options.api.get(kinds.PersistentVolume, name, undefined, signal);
    if (present?.metadata?.uid !== uid) return;
    const finalizers = present.metadata.finalizers ?? [];
    if (!finalizers.includes(finalizerName)) return;
    // With the version of what was read: finalizers of others that came in between are not lost.
    const { resourceVersion } = present.metadata;
    const metadata = { resourceVersion, finalizers: finalizers.filter((one) => one !== finalizerName) };
    await this.#options.api.patch(kinds.PersistentVolume, name, undefined, { metadata }, { kind: 'merge', signal });
    this.#waiting.delete(uid);
  }
}
