import assert from 'node:assert/strict';
import { dirname } from 'node:path';
import type { ConfigMap, DaemonSet, KubernetesObject } from '@hearth/common/kubernetes';
import { type Environment, plainPods } from '../environment.ts';
import { environment, sampleCluster } from '../testing/samples.ts';
import { desired } from './desired.ts';

const store = 'etcd://10.96.0.7:2379/models?serverName=etcd.models.hearth';

function build(pods: Environment['pods'] = plainPods) {
  const input = { cluster: sampleCluster(), store, members: [], startHash: 'h' };
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
  it('has the token of its account where the chart says so, and a holder never has', () => {
    const { agent, holder } = build({
      ...plainPods,
      agent: { ...plainPods.agent, serviceAccountName: 'reader', mountsToken: true },
    });
    assert.deepEqual([agent.serviceAccountName, agent.automountServiceAccountToken], ['reader', true]);
    assert.equal(holder.automountServiceAccountToken, false);
    assert.equal(build().agent.automountServiceAccountToken, false);
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
});
