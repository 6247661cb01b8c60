import assert from 'node:assert/strict';
import { silentLogger } from '@hearth/common';
import { type KubernetesApi, kinds } from '@hearth/common/kubernetes';
import { finalizerName, preloadGateName, startupTaintKeys } from '@hearth/common/resources';
import { apiOf, ChartServer, cleanupUser, releaseNamespace } from '@hearth/common/testing/kubernetes';
import { cleanup } from './cleanup.ts';

const nodes = Array.from({ length: 5 }, (_, index) => `node-${index}`);
const topology = 'csi.hearth.storage/agent';

describe('the clean-up on a cluster that goes on', () => {
  let chart: ChartServer;
  let api: KubernetesApi;

  before(async function () {
    chart = await ChartServer.start(this);
    api = apiOf(chart.server.userKubeconfig(cleanupUser, ['system:authenticated']));
    const metadata = { namespace: 'default', finalizers: [finalizerName] };
    await chart.apply(
      ...nodes.map((name) => ({
        apiVersion: 'v1',
        kind: 'Node',
        metadata: { name, labels: { [topology]: 'true' } },
        spec: { taints: [{ key: startupTaintKeys[0], effect: 'NoSchedule' }] },
      })),
      {
        apiVersion: 'hearth.storage/v1alpha1',
        kind: 'Dataset',
        metadata: { ...metadata, name: 'llama' },
        spec: { source: { http: { urls: ['https://example.com/llama'] } } },
      },
      {
        apiVersion: 'v1',
        kind: 'Pod',
        metadata: { name: 'gated', namespace: 'default' },
        spec: { schedulingGates: [{ name: preloadGateName }], containers: [{ name: 'app', image: 'app' }] },
      },
    );
  });
  after(async () => {
    api?.close();
    await chart?.stop();
  });

  /** The API of the clean-up, on a cluster in which others change each object just before its first patch. */
  function overtaken(): Pick<KubernetesApi, 'get' | 'list' | 'delete' | 'patch'> {
    const changed = new Set<string>();
    const patch: KubernetesApi['patch'] = async (type, name, namespace, body, options) => {
      const key = `${type.kind} ${namespace}/${name}`;
      const metadata = { annotations: { 'example.com/beat': 'now' } };
      if (!changed.has(key)) await chart.api.patch(type, name, namespace, { metadata }, { kind: 'merge' });
      changed.add(key);
      return await api.patch(type, name, namespace, body, options);
    };
    return { get: api.get.bind(api), list: api.list.bind(api), delete: api.delete.bind(api), patch };
  }

  // Argo CD and kubectl run no hooks of Helm: the operator's Deployment may be gone before the clean-up begins.
  it('ends although kubelets and users change objects meanwhile, also without an operator', async () => {
    const limits = { timeoutMs: 60_000, deadlineMs: 300_000, signal: new AbortController().signal };
    await cleanup({ api: overtaken(), namespace: releaseNamespace, logger: silentLogger, force: false, ...limits });
    for (const { metadata, spec } of (await chart.api.list(kinds.Node, {})).items) {
      assert.equal(metadata?.labels?.[topology], undefined, metadata?.name);
      assert.equal(spec?.taints?.some(({ key }) => startupTaintKeys.includes(key)) ?? false, false, metadata?.name);
    }
    assert.deepEqual((await chart.api.get(kinds.Dataset, 'llama', 'default'))?.metadata.finalizers ?? [], []);
    assert.equal((await chart.api.get(kinds.Pod, 'gated', 'default'))?.spec?.schedulingGates, undefined);
  });
});
