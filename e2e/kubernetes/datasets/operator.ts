import { silentLogger } from '@hearth/common';
import { EventRecorder, type KubernetesApi, kinds, Reflector } from '@hearth/common/kubernetes';
import type { Agents } from '../../../operator/src/agents/index.ts';
import { type DatasetControllerOptions, runDatasetController, usesOfPod } from '../../../operator/src/dataset/index.ts';
import { classView, pendingClaim, runProvisioner, volumeView } from '../../../operator/src/provisioner/index.ts';
import { apiOf } from '../runtime/fixture.ts';

export const grant = {
  clusterRole: 'hearth-secrets',
  serviceAccount: { namespace: 'hearth-system', name: 'hearth-operator' },
};

/** The operator's controllers of Datasets and volumes, as one replica that leads runs them. */
export class TestOperator {
  readonly #api: KubernetesApi;
  readonly #events: EventRecorder;
  readonly #stop = new AbortController();
  readonly #running: Promise<unknown>;

  /** `kubeconfig`: whom it is to be for the API server. */
  constructor(kubeconfig: string, agents: Agents, options: Partial<DatasetControllerOptions> = {}) {
    const api = apiOf(kubeconfig);
    const logger = silentLogger;
    const events = new EventRecorder({ api, component: 'hearth-operator', instance: 'test', logger });
    const datasets = new Reflector({ api, type: kinds.Dataset, logger });
    const clusters = new Reflector({ api, type: kinds.StorageCluster, logger });
    const pods = new Reflector({ api, type: kinds.Pod, project: usesOfPod, logger });
    const volumes = new Reflector({ api, type: kinds.PersistentVolume, project: volumeView, logger });
    const nodes = new Reflector({ api, type: kinds.Node, project: () => true, logger });
    const claims = new Reflector({ api, type: kinds.PersistentVolumeClaim, project: pendingClaim, logger });
    const storageClasses = new Reflector({ api, type: kinds.StorageClass, project: classView, logger });
    const { signal } = this.#stop;
    for (const one of [datasets, clusters, pods, nodes, volumes, claims, storageClasses]) one.start(signal);
    const common = { api, agents, datasets, clusters, volumes, events, logger };
    this.#api = api;
    this.#events = events;
    this.#running = Promise.all([
      runDatasetController({ ...common, pods, nodes, grant, ...options }, signal),
      runProvisioner({ ...common, claims, storageClasses }, signal),
    ]).catch((error: unknown) => {
      if (!signal.aborted) throw error;
    });
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#running;
    await this.#events.close();
    this.#api.close();
  }
}
