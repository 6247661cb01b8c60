import { type KubernetesClient, kinds } from '@hearth/common/kubernetes';
import { hasFinalizer, type Reconciler, removeFinalizer } from '../reconciler/index.ts';
import { affinityToCluster } from './persistent_volume.ts';
import { planVolume, type VolumeAction, type VolumeView } from './volume_plan.ts';

type Api = Pick<KubernetesClient, 'get' | 'delete' | 'patch'>;

/** Deletes volumes whose claims have gone, as their reclaim policy says, and completes those of earlier releases. */
export class VolumeReconciler implements Reconciler<VolumeView, undefined, VolumeAction> {
  readonly plan = planVolume;
  readonly #api: Api;

  constructor(api: Api) {
    this.#api = api;
  }

  /** The reflector's view of the volume says everything. */
  async observe(): Promise<undefined> {}

  async apply(action: VolumeAction, { name, uid, cluster }: VolumeView, signal: AbortSignal): Promise<void> {
    const api = this.#api;
    switch (action) {
      case 'addAffinity': {
        const patch = { metadata: { uid }, spec: { nodeAffinity: affinityToCluster(cluster) } };
        await api.patch(kinds.PersistentVolume, name, undefined, patch, { kind: 'merge', signal });
        return;
      }
      case 'deleteObject':
        await api.delete(kinds.PersistentVolume, name, undefined, { preconditions: { uid }, signal });
        return;
      case 'removeFinalizer': {
        const present = await api.get(kinds.PersistentVolume, name, undefined, signal);
        if (present?.metadata?.uid !== uid || !hasFinalizer(present)) return;
        await removeFinalizer(api, kinds.PersistentVolume, present, signal);
        return;
      }
    }
  }
}
