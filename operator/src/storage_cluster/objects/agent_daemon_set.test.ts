import assert from 'node:assert/strict';
import { dirname } from 'node:path';
import type { ConfigMap, DaemonSet, KubernetesObject } from '@hearth/common/kubernetes';
import { type Environment, plainPods } from '../environment.ts';
import { environment, sampleCluster } from '../testing/samples.ts';
import { desired } from './desired.ts';

const store = 'etcd://10.96.0.7:2379/models?serverName=etcd.models.hearth';

function build(pods: Environment['pods'] = plainPods, spec: object = {}) {
  const input = { cluster: sampleCluster(spec), store, members: [], startHash: 'h' };
  const objects = desired({ ...input, environment: { ...environment, pods } }).map(({ object }) => object);
  const find = <T extends KubernetesObject>(kind: string, name: RegExp) => {
    const found = objects.find((one) => one.kind === kind && name.test(one.metadata?.name ?? ''));
    assert.ok(found, `${kind} ${name}`);
    return found as T;
  };
  const podOf = (name: RegExp) => {
    const { spec } = find<DaemonSet>('DaemonSet', name).spec?.template ?? {};
    assert.ok(spec);
    return spec;
  };
  return { agent: podOf(/-agent$/), holder: podOf(/-holder$/), configuration: find<ConfigMap>('ConfigMap', /./) };
}

describe("an agent's pod", () => {
  it('has the account that the chart names, and neither it nor a holder has a token', () => {
    const { agent, holder } = build({ ...plainPods, agent: { ...plainPods.agent, serviceAccountName: 'reader' } });
    // A release that names no account, applied after a rollback, takes off what this one has applied, and nothing else.
    assert.deepEqual([agent.serviceAccountName, agent.serviceAccount], ['reader', 'reader']);
    for (const pod of [agent, holder]) assert.equal(pod.automountServiceAccountToken, false);
  });

  it('leads commands to the socket and the configuration of its agent', () => {
    const { agent, configuration } = build();
    const [container] = agent.containers;
    const variable = (wanted: string) => container?.env?.find(({ name }) => name === wanted)?.value;
    const { control } = JSON.parse(configuration.data?.['agent.yaml'] ?? '');
    assert.equal(variable('HEARTH_SOCKET'), control.socket);
    const file = variable('HEARTH_CONFIG') ?? '';
    assert.ok(container?.command?.includes(file), file);
    assert.ok(container?.volumeMounts?.some(({ mountPath }) => mountPath === dirname(file)));
  });

  describe('that uses RDMA', () => {
    const using = (rdma: object) =>
      build(plainPods, {
        nodeGroups: [{ name: 'all', cacheDirectories: [{ path: '/var/cache/hearth' }], rdma }],
      });
    const devicesOf = ({ agent }: ReturnType<typeof build>) => ({
      volume: agent.volumes?.find(({ name }) => name === 'rdma')?.hostPath?.path,
      mount: agent.containers[0]?.volumeMounts?.find(({ name }) => name === 'rdma')?.mountPath,
    });

    it("sees the node's devices, and may pin memory", () => {
      const built = using({});
      assert.deepEqual(devicesOf(built), { volume: '/dev/infiniband', mount: '/dev/infiniband' });
      assert.equal(built.agent.containers[0]?.securityContext?.privileged, true);
      const { engine } = JSON.parse(built.configuration.data?.['agent.yaml'] ?? '');
      assert.deepEqual([engine.rdma, engine.rdmaDevices], ['auto', []]);
    });

    it('is given one device by a plug-in where the group names its resource', () => {
      const built = using({ use: 'required', devices: ['mlx5_*'], resource: 'rdma/hca' });
      assert.deepEqual(devicesOf(built), { volume: undefined, mount: undefined });
      const { limits } = built.agent.containers[0]?.resources ?? {};
      assert.equal(limits?.['rdma/hca'], '1');
      assert.ok(limits?.memory);
      const { engine } = JSON.parse(built.configuration.data?.['agent.yaml'] ?? '');
      assert.deepEqual([engine.rdma, engine.rdmaDevices], ['required', ['mlx5_*']]);
    });

    it('is as before where the group says nothing of it', () => {
      const built = build();
      assert.deepEqual(devicesOf(built), { volume: undefined, mount: undefined });
      assert.ok(!built.configuration.data?.['agent.yaml']?.includes('rdma'));
    });
  });
});
