import type { Dataset, DatasetSpec } from '@hearth/common/resources';
import { until } from '@hearth/common/testing';
import { ChartServer } from '@hearth/common/testing/kubernetes';
import type { Context } from 'mocha';
import { FakeAgents } from './fake_agents.ts';
import { agentDataset } from './fixtures.ts';

/** A real API server with the chart's definitions, rights and policies, and what a test does with it by kubectl. */
export class DatasetCluster extends ChartServer {
  /** Kubeconfig of the operator's service account. */
  readonly operator = this.operatorKubeconfig();

  static override async start(context?: Context): Promise<DatasetCluster> {
    return new DatasetCluster(await ChartServer.serve(context));
  }

  async dataset(name: string, namespace = 'default'): Promise<Dataset> {
    return await this.get<Dataset>('dataset', name, namespace);
  }

  /** Waits until the condition Ready of a Dataset has this reason; the Dataset. */
  async reason(name: string, reason: string, namespace = 'default'): Promise<Dataset> {
    let last = 'none';
    return await until(`Dataset ${name} ${reason}`, async () => {
      const dataset = await this.dataset(name, namespace);
      const ready = conditionOf(dataset, 'Ready');
      last = `${ready?.reason}: ${ready?.message}`;
      return ready?.reason === reason ? dataset : undefined;
    }).catch((error: unknown) => {
      throw new Error(`${error} (it is ${last})`);
    });
  }
}

export function conditionOf(dataset: Dataset, type: string) {
  return dataset.status?.conditions?.find((one) => one.type === type);
}

export function storageCluster(name: string, directoryPrefixes: string[] = []): object {
  const nodeGroups = [{ name: 'all', cacheDirectories: [{ path: '/var/cache/hearth', budget: '1Gi' }] }];
  return {
    apiVersion: 'hearth.storage/v1alpha1',
    kind: 'StorageCluster',
    metadata: { name },
    spec: { nodeGroups, origins: { directoryPrefixes } },
  };
}

export function datasetObject(
  name: string,
  spec: Partial<Record<keyof DatasetSpec, unknown>> = {},
  namespace = 'default',
) {
  return {
    apiVersion: 'hearth.storage/v1alpha1',
    kind: 'Dataset',
    metadata: { name, namespace },
    spec: { source: { selfTest: {} }, ...spec },
  };
}

/** Agents that list every origin at once: three files of 1000 bytes together. */
export function promptAgents(cluster: string): FakeAgents {
  const agents = new FakeAgents(cluster, async function* ({ name }) {
    yield { dataset: agentDataset({ name }) };
  });
  agents.connect();
  return agents;
}
