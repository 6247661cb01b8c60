import type { KubernetesApi } from '@hearth/common/kubernetes';
import { ok, tools, until } from '@hearth/common/testing';
import { stringify } from 'yaml';
import { TestApiServer } from '../cluster/api_server.ts';
import { Chart, type Manifest, releaseNamespace } from './chart.ts';
import { apiOf } from './runtime/fixture.ts';

export const operatorUser = `system:serviceaccount:${releaseNamespace}:hearth-operator`;
const operatorGroups = ['system:serviceaccounts', `system:serviceaccounts:${releaseNamespace}`, 'system:authenticated'];

/** Kinds of the chart that an API server without controllers can take, and that bind the operator. */
const appliedKinds: ReadonlySet<string> = new Set([
  'ClusterRole',
  'ClusterRoleBinding',
  'CustomResourceDefinition',
  'Role',
  'RoleBinding',
  'ValidatingAdmissionPolicy',
  'ValidatingAdmissionPolicyBinding',
]);

/** A real API server with the chart's definitions, rights and policies; no controllers and no nodes. */
export class ChartServer {
  readonly server: TestApiServer;
  /** As an administrator. */
  readonly api: KubernetesApi;
  /** Every object of the chart, those too that the API server was not given. */
  readonly objects: readonly Manifest[];

  private constructor(server: TestApiServer, objects: readonly Manifest[]) {
    this.server = server;
    this.api = apiOf(server.kubeconfig);
    this.objects = objects;
  }

  /** Throws ToolUnavailable where the programs cannot be built. */
  static async start(): Promise<ChartServer> {
    const { helm = '' } = await tools(['helm']);
    const objects = await new Chart(helm).template();
    const server = await TestApiServer.start();
    const started = new ChartServer(server, objects);
    try {
      await started.#apply();
    } catch (error) {
      await started.stop();
      throw error;
    }
    return started;
  }

  /** Of the operator's account, with the rights that the chart gives it. */
  async operatorKubeconfig(): Promise<string> {
    return await this.server.userKubeconfig(operatorUser, operatorGroups);
  }

  async stop(): Promise<void> {
    this.api.close();
    await this.server.stop();
  }

  async #apply(): Promise<void> {
    const { server } = this;
    await ok(server.kubectl(['create', 'namespace', releaseNamespace]));
    const chosen = this.objects.filter(({ kind }) => appliedKinds.has(kind));
    const input = chosen.map((one) => stringify(one, { version: '1.1' })).join('---\n');
    await ok(server.kubectl(['apply', '--server-side', '-f', '-'], { input }));
    await ok(server.kubectl(['wait', '--for=condition=Established', 'crd', '--all', '--timeout=300s']));
    await until('the custom resources are served', async () => {
      return (await server.kubectl(['get', 'storageclusters'])).code === 0;
    });
  }
}
