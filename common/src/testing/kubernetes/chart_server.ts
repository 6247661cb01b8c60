import assert from 'node:assert/strict';
import type { Context } from 'mocha';
import { stringify } from 'yaml';
import { type CoreEvent, type KubernetesApi, kinds } from '../../kubernetes/index.ts';
import { type Outcome, ok } from '../command.ts';
import { needsPrograms } from '../needs.ts';
import { tools } from '../tool.ts';
import { until } from '../until.ts';
import { TestApiServer } from './api_server.ts';
import { Chart, type Manifest, releaseNamespace } from './chart.ts';
import { apiOf } from './kubeconfig.ts';

export const operatorUser = `system:serviceaccount:${releaseNamespace}:hearth-operator`;
export const cleanupUser = `system:serviceaccount:${releaseNamespace}:hearth-cleanup`;
const operatorGroups = ['system:serviceaccounts', `system:serviceaccounts:${releaseNamespace}`, 'system:authenticated'];

/** Kinds of the chart that an API server without controllers accepts and that affect the operator. */
const appliedKinds: ReadonlySet<string> = new Set([
  'ClusterRole',
  'ClusterRoleBinding',
  'CustomResourceDefinition',
  'Role',
  'RoleBinding',
  'ValidatingAdmissionPolicy',
  'ValidatingAdmissionPolicyBinding',
]);

/** An API server with the chart's definitions, rights and policies, and all objects of the chart. */
export interface ServedChart {
  server: TestApiServer;
  objects: readonly Manifest[];
}

/**
 * A real API server with the chart's definitions, rights and policies; no controllers and no nodes. Controller fixtures
 * extend it.
 */
export class ChartServer {
  readonly server: TestApiServer;
  /** API client with administrator rights. */
  readonly api: KubernetesApi;
  /** Every object of the chart, including objects that were not applied. */
  readonly objects: readonly Manifest[];

  protected constructor({ server, objects }: ServedChart) {
    this.server = server;
    this.api = apiOf(server.kubeconfig);
    this.objects = objects;
  }

  /** For a suite, which is skipped where the programs cannot be built; without a context throws ToolUnavailable. */
  static async start(context?: Context): Promise<ChartServer> {
    return new ChartServer(await ChartServer.serve(context));
  }

  protected static async serve(context?: Context): Promise<ServedChart> {
    return context === undefined ? await serveChart() : await needsPrograms(context, serveChart);
  }

  /** Kubeconfig of the operator's service account with the rights that the chart grants. */
  operatorKubeconfig(): string {
    return this.server.userKubeconfig(operatorUser, operatorGroups);
  }

  operatorApi(): KubernetesApi {
    return apiOf(this.operatorKubeconfig());
  }

  /** Runs kubectl as administrator, like the methods below, and returns its output. Must succeed. */
  async kubectl(...args: string[]): Promise<string> {
    const outcome = await this.tryKubectl(args);
    assert.equal(outcome.code, 0, `kubectl ${args.join(' ')}: ${outcome.stderr}`);
    return outcome.stdout.trim();
  }

  tryKubectl(args: string[], input = ''): Promise<Outcome> {
    return this.server.kubectl(args, { input });
  }

  /** Runs `kubectl apply` on one object after the other. Returns kubectl's warnings. */
  async apply(...objects: object[]): Promise<string> {
    const list = JSON.stringify({ apiVersion: 'v1', kind: 'List', items: objects });
    const outcome = await this.tryKubectl(['apply', '-f', '-'], list);
    assert.equal(outcome.code, 0, outcome.stderr);
    return outcome.stderr;
  }

  async get<T>(kind: string, name: string, namespace = 'default'): Promise<T> {
    return JSON.parse(await this.kubectl('get', kind, name, '-n', namespace, '-o', 'json')) as T;
  }

  async gone(kind: string, name: string, namespace = 'default'): Promise<void> {
    await until(`${kind} ${name} gone`, async () => {
      return (await this.kubectl('get', kind, name, '-n', namespace, '--ignore-not-found', '-o', 'name')) === '';
    });
  }

  /** The events of an object as `TYPE REASON: MESSAGE`. */
  async eventsOf(kind: string, name: string, namespace = 'default'): Promise<string[]> {
    const fieldSelector = `involvedObject.kind=${kind},involvedObject.name=${name}`;
    const { items } = await this.api.list(kinds.CoreEvent, { namespace, fieldSelector });
    return items.map(({ type, reason, message }: CoreEvent) => `${type} ${reason}: ${message}`);
  }

  async stop(): Promise<void> {
    this.api.close();
    await this.server.stop();
  }
}

async function serveChart(): Promise<ServedChart> {
  const { helm } = await tools(['helm']);
  const objects = await new Chart(helm).template();
  const server = await TestApiServer.start();
  try {
    await applyTo(server, objects);
  } catch (error) {
    await server.stop();
    throw error;
  }
  return { server, objects };
}

async function applyTo(server: TestApiServer, objects: readonly Manifest[]): Promise<void> {
  await ok(server.kubectl(['create', 'namespace', releaseNamespace]));
  const chosen = objects.filter(({ kind }) => appliedKinds.has(kind));
  const input = chosen.map((one) => stringify(one, { version: '1.1' })).join('---\n');
  await ok(server.kubectl(['apply', '--server-side', '-f', '-'], { input }));
  await ok(server.kubectl(['wait', '--for=condition=Established', 'crd', '--all', '--timeout=300s']));
  await until('the custom resources are served', async () => {
    return (await server.kubectl(['get', 'storageclusters'])).code === 0;
  });
}
