import { HearthError } from '@hearth/common';
import { type EventRecorder, type KubernetesClient, kinds } from '@hearth/common/kubernetes';
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
}

/** Deletes volumes whose claims have gone, as their reclaim policy says. */
export class VolumeReconciler {
  readonly #options: VolumeReconcilerOptions;

  constructor(options: VolumeReconcilerOptions) {
    this.#options = options;
  }

  async reconcile(name: string, signal: AbortSignal): Promise<void> {
    const volume = this.#options.volume(name);
    for (const action of planVolume(volume)) {
      if (volume !== undefined) await this.#apply(action, volume, signal);
    }
  }

  async #apply(action: VolumeAction, volume: VolumeView, signal: AbortSignal): Promise<void> {
    switch (action.kind) {
      case 'deleteVolume':
        return await this.#deleteVolume(volume, signal);
      case 'deleteObject': {
        const { name, uid } = volume;
        await this.#options.api.delete(kinds.PersistentVolume, name, undefined, { preconditions: { uid }, signal });
        return;
      }
      case 'removeFinalizer':
        return await this.#removeFinalizer(volume, signal);
    }
  }

  /** A record of a cluster that is gone is gone too. */
  async #deleteVolume(volume: VolumeView, signal: AbortSignal): Promise<void> {
    const { cluster, handle, name, uid } = volume;
    if (!this.#options.hasCluster(cluster)) return;
    try {
      await this.#options.volumes.delete(cluster, handle, signal);
    } catch (thrown) {
      const { message } = HearthError.from(thrown);
      const object = { metadata: { name, uid } };
      this.#options.events.eventFor(kinds.PersistentVolume, object, 'Warning', 'VolumeFailedDelete', message);
      throw thrown;
    }
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
  }
}
