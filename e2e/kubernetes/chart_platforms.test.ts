import assert from 'node:assert/strict';
import { type Manifest, podSpecs } from '@hearth/common/testing/kubernetes';
import { type Expression, expressionHolds, isTolerated } from '../../operator/src/kubernetes/index.ts';
import { desired } from '../../operator/src/storage_cluster/objects/index.ts';
import {
  environment as operatorEnvironment,
  sampleCluster,
} from '../../operator/src/storage_cluster/testing/samples.ts';
import { objectOf, useChart } from './rendered_chart.ts';

describe('chart on the platforms of its users', () => {
  const chart = useChart();

  it('gives every pod but csi-node no privileges, and csi-node no token', async () => {
    const objects = await chart().template();
    const node = objectOf(objects, 'DaemonSet', 'hearth-csi-node').spec.template.spec;
    assert.equal(node.automountServiceAccountToken, false);
    assert.equal(node.serviceAccountName, 'hearth-csi-node');
    assert.equal(objectOf(objects, 'ServiceAccount', 'hearth-csi-node').automountServiceAccountToken, false);
    for (const [kind, name] of [
      ['Deployment', 'hearth-operator'],
      ['Job', 'hearth-cleanup'],
    ] as const) {
      const { spec } = objectOf(objects, kind, name).spec.template;
      assert.equal(spec.securityContext.runAsNonRoot, true);
      assert.equal(spec.containers[0].securityContext.readOnlyRootFilesystem, true);
    }
  });

  it('lets the driver do what it can', async () => {
    const driver = objectOf(await chart().template(), 'CSIDriver', 'csi.hearth.storage');
    assert.deepEqual(driver.spec, {
      attachRequired: false,
      podInfoOnMount: true,
      fsGroupPolicy: 'None',
      storageCapacity: false,
      requiresRepublish: false,
      seLinuxMount: false,
      volumeLifecycleModes: ['Persistent', 'Ephemeral'],
    });
    for (const platform of ['kubernetes', 'openshift']) {
      const label = `security.${platform}.io/csi-ephemeral-volume-profile`;
      assert.equal(driver.metadata.labels?.[label], 'restricted', 'for inline volumes');
    }
  });

  it('leaves users to OpenShift, and binds to its privileged constraints those who mount', async () => {
    const users = ['runAsUser', 'runAsGroup', 'fsGroup'];
    for (const enabled of [true, false]) {
      const objects = await chart().template({ 'openshift.enabled': enabled });
      const bindings = objects.filter(
        ({ kind, metadata }) => kind === 'RoleBinding' && metadata.name === 'hearth-privileged',
      );
      assert.deepEqual(
        bindings.map(({ roleRef, subjects }) => [roleRef.name, ...subjects.map(({ name }: { name: string }) => name)]),
        enabled ? [['system:openshift:scc:privileged', 'hearth-csi-node', 'hearth-agent', 'hearth-holder']] : [],
      );
      const restricted = [...podSpecs(objects).values()].filter(
        ({ securityContext }) => securityContext?.runAsNonRoot === true,
      );
      assert.equal(restricted.length, 3, 'operator, clean-up and self-test');
      for (const { securityContext } of restricted) {
        assert.deepEqual(
          users.filter((user) => user in securityContext),
          enabled ? [] : users,
        );
      }
      const { env } = objectOf(objects, 'Deployment', 'hearth-operator').spec.template.spec.containers[0];
      const settings = env.find(({ name }: { name: string }) => name === 'HEARTH_POD_SETTINGS').value;
      assert.equal(JSON.parse(settings).etcd.anyUser, enabled);
    }
  });

  it('gives agents no token, and nobody but the operator rights to read', async () => {
    const objects = await chart().template();
    for (const component of ['agent', 'holder', 'etcd', 'csi-node']) {
      const name = `hearth-${component}`;
      assert.equal(objectOf(objects, 'ServiceAccount', name).automountServiceAccountToken, false);
      const bound = objects.filter(
        ({ kind, subjects }) => /RoleBinding$/.test(kind) && JSON.stringify(subjects).includes(`"${name}"`),
      );
      assert.deepEqual(bound, []);
    }
  });

  it('counts pods of critical classes, which GKE asks for', async () => {
    const quota = objectOf(await chart().template(), 'ResourceQuota', 'hearth-critical-pods');
    const [scope] = quota.spec.scopeSelector.matchExpressions;
    assert.deepEqual(scope, {
      scopeName: 'PriorityClass',
      operator: 'In',
      values: ['system-node-critical', 'system-cluster-critical'],
    });
    const without = await chart().template({ 'criticalPods.quota': false });
    assert.ok(!without.some(({ kind }) => kind === 'ResourceQuota'));
  });

  it('runs csi-node where pods with volumes run, and on no virtual node', async () => {
    const { tolerations, affinity } = objectOf(await chart().template(), 'DaemonSet', 'hearth-csi-node').spec.template
      .spec;
    const isTolerant = (key: string, effect = 'NoSchedule') => isTolerated({ key, effect }, tolerations);
    for (const key of ['nvidia.com/gpu', 'hearth.storage/agent-not-ready', 'karpenter.sh/disrupted'])
      assert.ok(isTolerant(key), key);
    for (const key of ['node-role.kubernetes.io/control-plane', 'eks.amazonaws.com/compute-type'])
      assert.ok(!isTolerant(key), key);
    assert.ok(isTolerant('maintenance', 'NoExecute'), 'it unmounts for pods that are evicted');
    const [term] = affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms;
    const runsOn = (labels: Record<string, string>) =>
      term.matchExpressions.every((one: Expression) => expressionHolds(one, labels[one.key]));
    assert.ok(runsOn({}));
    assert.ok(!runsOn({ 'eks.amazonaws.com/compute-type': 'fargate' }));
    assert.ok(!runsOn({ type: 'virtual-kubelet' }));
  });

  it('has monitors that choose pods and ports of the chart and of the operator', async () => {
    const objects = await chart().template({
      'metrics.serviceMonitor.enabled': true,
      'metrics.podMonitor.enabled': true,
    });
    const cluster = sampleCluster({ store: { etcd: {} } });
    const made = desired({ cluster, environment: operatorEnvironment, store: 'etcd://x', members: [], startHash: 'h' });
    const pods = made.flatMap(({ object }) => {
      const { template } = (object as unknown as Manifest).spec ?? {};
      return template === undefined ? [] : [template];
    });
    /** Ports by name of all that the labels choose. */
    const ports = (chosen: Record<string, string>, from: Manifest[], list: (one: Manifest) => { name: string }[]) =>
      from
        .filter(({ metadata }) => Object.entries(chosen).every(([key, value]) => metadata.labels?.[key] === value))
        .flatMap((one) => list(one).map(({ name }) => name));
    const services = objects.filter(({ kind }) => kind === 'Service');
    const { selector, endpoints } = objectOf(objects, 'ServiceMonitor', 'hearth-operator').spec;
    const ofService = ports(selector.matchLabels, services, ({ spec }) => spec.ports);
    assert.equal(ofService.filter((name) => name === endpoints[0].port).length, 1, ofService.join());
    for (const component of ['agent', 'etcd']) {
      const { spec } = objectOf(objects, 'PodMonitor', `hearth-${component}`);
      const names = ports(spec.selector.matchLabels, pods, (pod) => pod.spec.containers[0].ports);
      assert.equal(names.filter((name) => name === spec.podMetricsEndpoints[0].port).length, 1, names.join());
      // The label that becomes storage_cluster.
      const [pod] = pods.filter((one) => one.metadata.labels['app.kubernetes.io/component'] === component);
      assert.equal(pod.metadata.labels['hearth.storage/cluster'], 'models');
    }
  });
});
