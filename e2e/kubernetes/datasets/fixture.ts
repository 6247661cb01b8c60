import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Dataset, DatasetSpec } from '@hearth/common/resources';
import { root, until } from '@hearth/common/testing';
import type { Context } from 'mocha';
import { FakeAgents } from '../../../operator/src/dataset/testing/fake_agents.ts';
import { agentDataset } from '../../../operator/src/dataset/testing/fixtures.ts';
import type { TestApiServer } from '../../cluster/api_server.ts';
import { startApiServer } from '../runtime/fixture.ts';

export const operatorUser = 'system:serviceaccount:hearth-system:hearth-operator';

/** The rights that the controllers of Datasets and volumes need, and no others. */
const rules = [
  { apiGroups: ['hearth.storage'], resources: ['storageclusters'], verbs: ['list', 'watch'] },
  { apiGroups: ['hearth.storage'], resources: ['datasets'], verbs: ['list', 'watch', 'patch'] },
  { apiGroups: ['hearth.storage'], resources: ['datasets/status'], verbs: ['patch'] },
  { apiGroups: [''], resources: ['pods', 'nodes'], verbs: ['list', 'watch'] },
  { apiGroups: [''], resources: ['persistentvolumeclaims'], verbs: ['get', 'list', 'watch'] },
  {
    apiGroups: [''],
    resources: ['persistentvolumes'],
    verbs: ['get', 'list', 'watch', 'create', 'patch', 'delete'],
  },
  { apiGroups: ['storage.k8s.io'], resources: ['storageclasses'], verbs: ['list', 'watch'] },
  { apiGroups: [''], resources: ['events'], verbs: ['create', 'patch'] },
];

/** A real API server with the custom resources of Hearth, and what a test does with it by kubectl. */
export class DatasetCluster {
  readonly server: TestApiServer;
  /** Kubeconfig of the operator's service account. */
  readonly operator: string;

  private constructor(server: TestApiServer, operator: string) {
    this.server = server;
    this.operator = operator;
  }

  static async start(context: Context): Promise<DatasetCluster> {
    const server = await startApiServer(context);
    const cluster = new DatasetCluster(server, await server.userKubeconfig(operatorUser));
    for (const file of readdirSync(join(root, 'crds'))) await cluster.kubectl('apply', '-f', join(root, 'crds', file));
    await cluster.kubectl('wait', '--for=condition=Established', 'crd', '--all', '--timeout=300s');
    const metadata = { name: 'hearth-operator' };
    const roleRef = { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'hearth-operator' };
    const subjects = [{ kind: 'User', apiGroup: 'rbac.authorization.k8s.io', name: operatorUser }];
    const secrets = [{ apiGroups: [''], resources: ['secrets'], verbs: ['get'] }];
    const rbac = { apiVersion: 'rbac.authorization.k8s.io/v1' };
    await cluster.apply({ ...rbac, kind: 'ClusterRole', metadata, rules });
    await cluster.apply({ ...rbac, kind: 'ClusterRole', metadata: { name: 'hearth-secrets' }, rules: secrets });
    await cluster.apply({ ...rbac, kind: 'ClusterRoleBinding', metadata, roleRef, subjects });
    return cluster;
  }

  async stop(): Promise<void> {
    await this.server.stop();
  }

  async kubectl(...args: string[]): Promise<string> {
    const outcome = await this.server.kubectl(args);
    assert.equal(outcome.code, 0, `kubectl ${args.join(' ')}: ${outcome.stderr}`);
    return outcome.stdout.trim();
  }

  async apply(...objects: object[]): Promise<void> {
    const input = JSON.stringify({ apiVersion: 'v1', kind: 'List', items: objects });
    const outcome = await this.server.kubectl(['apply', '-f', '-'], { input });
    assert.equal(outcome.code, 0, outcome.stderr);
  }

  async get<T>(kind: string, name: string, namespace = 'default'): Promise<T> {
    return JSON.parse(await this.kubectl('get', kind, name, '-n', namespace, '-o', 'json')) as T;
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

  async gone(kind: string, name: string, namespace = 'default'): Promise<void> {
    await until(`${kind} ${name} gone`, async () => {
      return (await this.kubectl('get', kind, name, '-n', namespace, '--ignore-not-found', '-o', 'name')) === '';
    });
  }

  /** `TYPE REASON` of the events of an object, each with its message. */
  async events(kind: string, name: string, namespace = 'default'): Promise<string[]> {
    const selector = `--field-selector=involvedObject.kind=${kind},involvedObject.name=${name}`;
    const list = JSON.parse(await this.kubectl('get', 'events', '-n', namespace, selector, '-o', 'json'));
    return list.items.map((one: { type: string; reason: string; message: string }) => {
      return `${one.type} ${one.reason}: ${one.message}`;
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
