import assert from 'node:assert/strict';
import { isDeepStrictEqual } from 'node:util';
import { kinds } from '@hearth/common/kubernetes';
import { until } from '@hearth/common/testing';
import { Admission, ControllerManager } from '@hearth/common/testing/kubernetes';
import { namespace, OperatorFixture, type Replica } from '../operator/testing/operator_fixture.ts';
import { podState } from '../storage_cluster/index.ts';

const cacheDirectories = [{ path: '/var/cache/hearth' }];
const agentsLabel = 'agents.hearth.storage/models';

describe('agents and holders, with the DaemonSet controller of Kubernetes', () => {
  let fixture: OperatorFixture;
  let controllers: ControllerManager;
  let operator: Replica;

  before(async function () {
    fixture = await OperatorFixture.start(this);
    controllers = await ControllerManager.start(fixture.server, ['daemonset-controller']);
    operator = await fixture.operator();
    const nodeGroups = [
      {
        name: 'gpu',
        nodeSelector: { pool: 'gpu' },
        tolerations: [{ key: 'gpu', operator: 'Exists' }],
        cacheDirectories,
      },
      { name: 'rest', cacheDirectories },
    ];
    await fixture.cluster('models', { nodeGroups });
  });
  after(async () => {
    await controllers?.stop();
    await fixture?.stop();
  });

  /** As the scheduler does. The controller finds pods that are to go by the node that they are bound to. */
  const bind = async (name: string, node: string) => {
    const binding = { apiVersion: 'v1', kind: 'Binding', metadata: { name }, target: { kind: 'Node', name: node } };
    await new Admission(fixture.server.kubeconfig).ask(
      'POST',
      `/api/v1/namespaces/${namespace}/pods/${name}/binding`,
      binding,
    );
  };
  /** `COMPONENT of GROUP` of all pods of a node, which no kubelet runs. */
  const podsOn = async (node: string): Promise<string[]> => {
    const { items } = await fixture.api.list(kinds.Pod, { namespace });
    const states = items.map(podState).filter((one) => one.node === node && !one.deleting);
    const unbound = items.filter(({ spec }) => spec?.nodeName === undefined).map(podState);
    for (const one of unbound) await bind(one.name, one.node);
    return states.map(({ component, group }) => `${component} of ${group}`).sort();
  };
  const come = (node: string, ...wanted: string[]) =>
    until(`${wanted} alone on ${node}`, async () => isDeepStrictEqual(await podsOn(node), wanted));
  const labelOf = async (node: string) => (await fixture.api.get(kinds.Node, node))?.metadata?.labels?.[agentsLabel];
  const setTaints = async (node: string, ...taints: object[]) => {
    await fixture.api.patch(kinds.Node, node, undefined, { spec: { taints } }, { kind: 'merge' });
  };

  it('come to the nodes of their group alone', async () => {
    await fixture.node('gpu-1', { pool: 'gpu' }, false);
    await fixture.node('cpu-1', {}, false);
    await come('gpu-1', 'agent of gpu', 'holder of gpu');
    await come('cpu-1', 'agent of rest', 'holder of rest');
    await until('the label of gpu-1', async () => (await labelOf('gpu-1')) === 'gpu');
  });

  it('stay when a taint comes, and go from a node that has lost its label', async () => {
    await setTaints('gpu-1', { key: 'maintenance', effect: 'NoSchedule' });
    await fixture.node('cpu-2', {}, false);
    await come('cpu-2', 'agent of rest', 'holder of rest');
    assert.deepEqual(await podsOn('gpu-1'), ['agent of gpu', 'holder of gpu']);
    const labels = { pool: null };
    await fixture.api.patch(kinds.Node, 'gpu-1', undefined, { metadata: { labels } }, { kind: 'merge' });
    await come('gpu-1', 'agent of rest', 'holder of rest');
    assert.equal(await labelOf('gpu-1'), 'rest');
  });

  it('come to new nodes while the operator is away, which decides when it is back', async () => {
    await operator.stop();
    await fixture.node('gpu-2', { pool: 'gpu' }, false);
    await come('gpu-2', 'agent of gpu', 'holder of gpu');
    await fixture.node('gpu-3', { pool: 'gpu' }, false);
    await setTaints('gpu-3', { key: 'dedicated', value: 'other', effect: 'NoSchedule' });
    await come('gpu-3', 'agent of gpu', 'holder of gpu');
    operator = await fixture.operator('operator-1');
    await until('the decision', async () => (await labelOf('gpu-3')) === 'rest');
    assert.equal(await labelOf('gpu-2'), 'gpu');
    await come('gpu-3', 'agent of rest', 'holder of rest');
  });
});
