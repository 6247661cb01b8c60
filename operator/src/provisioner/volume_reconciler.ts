import { epochMs, HearthError, systemClock } from '@hearth/common';
import { type EventRecorder, type KubernetesClient, kinds, type ReconcileResult } from '@hearth/common/kubernetes';
import type { StorageCluster } from '@hearth/common/resources';
import { isAway } from '../agents/index.ts';
import type { Source } from '../kubernetes/index.ts';
import { hasFinalizer, type Reconciler, removeFinalizer } from '../reconciler/index.ts';
import { affinityToCluster } from './persistent_volume.ts';
import { planVolume, type VolumeAction, type VolumeView } from './volume_plan.ts';
import type { Volumes } from './volumes.ts';

export interface VolumeReconcilerOptions {
  api: Pick<KubernetesClient, 'get' | 'delete' | 'patch'>;
  events: Pick<EventRecorder, 'eventFor'>;
  volumes: Volumes;
  clusters: Pick<Source<StorageCluster>, 'get'>;
  /** Milliseconds since the epoch. Absent: the time of day. */
  now?: () => number;
}

/** How soon agents that are away are asked again. */
const awayMs = 30_000;
/** A deletion waits this long for agents that cannot be reached, then it ends without them. */
const timeoutMs = 300_000;

/** Deletes volumes whose claims have gone, as their reclaim policy says, and has agents know the others. */
export class VolumeReconciler implements Reconciler<VolumeView, boolean, VolumeAction> {
  readonly #options: VolumeReconcilerOptions;
  /** Since when agents have not answered the deletion of a volume, by its uid. */
  readonly #waiting = new Map<string, number>();

  constructor(options: VolumeReconcilerOptions) {
    this.#options = options;
  }

  /** Resolves to true when the volume's StorageCluster exists. */
  async observe({ cluster }: VolumeView): Promise<boolean> {
    return this.#options.clusters.get(cluster) !== undefined;
  }

  /** A record of a cluster that is gone is gone too. */
  plan(volume: VolumeView, hasCluster: boolean): VolumeAction[] {
    return planVolume(volume).filter(({ kind }) => hasCluster || kind === 'deleteObject' || kind === 'removeFinalizer');
  }

  async apply({ kind }: VolumeAction, volume: VolumeView, signal: AbortSignal): Promise<ReconcileResult | undefined> {
    switch (kind) {
      case 'addAffinity': {
        const patch = { metadata: { uid: volume.uid }, spec: { nodeAffinity: affinityToCluster(volume.cluster) } };
        const options = { kind: 'merge', signal } as const;
        await this.#options.api.patch(kinds.PersistentVolume, volume.name, undefined, patch, options);
        return undefined;
      }
      case 'ensureVolume':
        return await this.#ensureVolume(volume, signal);
      case 'deleteVolume':
        return await this.#deleteVolume(volume, signal);
      case 'deleteObject': {
        const preconditions = { uid: volume.uid };
        await this.#options.api.delete(kinds.PersistentVolume, volume.name, undefined, { preconditions, signal });
        return undefined;
      }
      case 'removeFinalizer':
        return await this.#removeFinalizer(volume, signal);
    }
  }

  /** No pod waits for this, so agents that are away are no failure. */
  async #ensureVolume(volume: VolumeView, signal: AbortSignal): Promise<ReconcileResult | undefined> {
    try {
      await this.#options.volumes.ensure(volume, signal);
      return undefined;
    } catch (thrown) {
      if (!isAway(thrown)) throw thrown;
      return { requeueAfterMs: awayMs };
    }
  }

  /** Agents that stay away hold nothing up for ever. */
  async #deleteVolume({ cluster, handle, name, uid }: VolumeView, signal: AbortSignal): Promise<undefined> {
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
  #isGivenUp(uid: string, error: HearthError, signal: AbortSignal): boolean {
    if (signal.aborted || !isAway(error)) return false;
    const { now = () => epochMs(systemClock) } = this.#options;
    const since = this.#waiting.get(uid) ?? now();
    this.#waiting.set(uid, since);
    return now() - since >= timeoutMs;
  }

  async #removeFinalizer({ name, uid }: VolumeView, signal: AbortSignal): Promise<undefined> {
    const { api } = this.#options;
    const present = await api.get(kinds.PersistentVolume, name, undefined, signal);
    if (present?.metadata?.uid !== uid || !hasFinalizer(present)) return;
    await removeFinalizer(api, kinds.PersistentVolume, present, signal);
    this.#waiting.delete(uid);
  }
}
