import { kinds, Reflector } from '@hearth/common/kubernetes';
import type { Agents } from '../../agents/index.ts';
import { classView, growingClaim, pendingClaim, runProvisioner, volumeView } from '../../provisioner/index.ts';
import { RunningControllers } from '../../testing/running_controllers.ts';
import type { DatasetControllerOptions } from '../dataset_controller.ts';
import { runDatasetController, usesOfPod } from '../index.ts';

export const grant = {
  clusterRole: 'hearth-secrets',
  serviceAccount: { namespace: 'hearth-system', name: 'hearth-operator' },
};

/** The operator's controllers of Datasets and volumes. */
export class TestOperator {
  readonly #controllers: RunningControllers;

  /** `kubeconfig`: whom it is to be for the API server. */
  constructor(kubeconfig: string, agents: Agents, options: Partial<DatasetControllerOptions> = {}) {
    this.#controllers = new RunningControllers(kubeconfig, async ({ signal, ...parts }) => {
      const { api, logger } = parts;
      const datasets = new Reflector({ api, type: kinds.Dataset, logger });
      const clusters = new Reflector({ api, type: kinds.StorageCluster, logger });
      const pods = new Reflector({ api, type: kinds.Pod, project: usesOfPod, logger });
      const volumes = new Reflector({ api, type: kinds.PersistentVolume, project: volumeView, logger });
      const nodes = new Reflector({ api, type: kinds.Node, project: () => true, logger });
      const claims = new Reflector({ api, type: kinds.PersistentVolumeClaim, project: pendingClaim, logger });
      const growing = new Reflector({ api, type: kinds.PersistentVolumeClaim, project: growingClaim, logger });
      const storageClasses = new Reflector({ api, type: kinds.StorageClass, project: classView, logger });
      for (const one of [datasets, clusters, pods, nodes, volumes, claims, growing, storageClasses]) one.start(signal);
      const common = { ...parts, agents, datasets, clusters, volumes };
      await Promise.all([
        runDatasetController({ ...common, pods, nodes, grant, ...options }, signal),
        runProvisioner({ ...common, claims, growing, storageClasses }, signal),
      ]);
    });
  }

  stop(): Promise<void> {
    return this.#controllers.stop();
  }
}
