import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { customResourceDefinition, definitions } from '@hearth/common/resources';
import { needsPrograms, root, tools } from '@hearth/common/testing';
import { Chart, chartFolder, flags, type Manifest, podSpecs, someRegistry } from '@hearth/common/testing/kubernetes';
import { parse } from 'yaml';
import { readConfiguration } from '../../csi-driver/src/configuration.ts';
import { type Expression, expressionHolds, isTolerated } from '../../operator/src/kubernetes/index.ts';
import { readEnvironment } from '../../operator/src/storage_cluster/environment.ts';
import { desired } from '../../operator/src/storage_cluster/objects/index.ts';
import {
  environment as operatorEnvironment,
  sampleCluster,
} from '../../operator/src/storage_cluster/testing/samples.ts';
import { oddValues } from './odd_values.ts';

const refusals: [what: string, values: Record<string, unknown>, message: RegExp][] = [
  ['a key that is not known', { imagePullPolcy: 'Never' }, /imagePullPolcy/],
  ['a key that is not known, below', { 'operator.replica': 3 }, /operator.*replica/s],
  ['a registry with a space', { 'global.imageRegistry': 'a b' }, /imageRegistry/],
  ['a pull secret without a name', { 'global.imagePullSecrets': [{ names: 'a' }] }, /imagePullSecrets/],
  ['an image with a space', { image: 'a b' }, /image/],
  ['a pull policy that is none', { imagePullPolicy: 'Sometimes' }, /imagePullPolicy/],
  ['no replicas', { 'operator.replicas': 0 }, /replicas/],
  ['replicas as text', { 'operator.replicas': '2' }, /replicas/],
  ['a level that is none', { logLevel: 'trace' }, /logLevel/],
  ['a relative folder of the kubelet', { kubeletDirectory: 'kubelet' }, /kubeletDirectory/],
  ['a namespace that cannot be', { datasetNamespaces: ['a.b'] }, /datasetNamespaces/],
  ['namespaces as text', { datasetNamespaces: 'models' }, /datasetNamespaces/],
  ['a toleration with a key that is not known', { 'csiNode.tolerations': [{ keys: 'gpu' }] }, /tolerations/],
  ["a variable that is the chart's", { 'csiNode.extraEnv': [{ name: 'HEARTH_NODE', value: 'x' }] }, /extraEnv/],
  ['an affinity for nothing', { 'agent.affinity': {} }, /affinity/],
  ['resources that are no quantity', { 'operator.resources': { limits: { memory: 'much' } } }, /memory/],
  ['a policy of reclaiming that is none', { 'storageClass.reclaimPolicy': 'Recycle' }, /reclaimPolicy/],
  ['a deadline of no time', { 'cleanup.deadlineSeconds': 0 }, /deadlineSeconds/],
  ['a port of the webhook that is taken', { 'webhook.port': 8080 }, /webhook\/port|webhook.port/],
  ['a namespace that cannot be excluded', { 'webhook.excludedNamespaces': ['a b'] }, /excludedNamespaces/],
  ['a share over 100%', { 'csiNode.maxUnavailable': '101%' }, /maxUnavailable/],
];

describe('chart', () => {
  let chart: Chart;

  before(async function () {
    const { helm = '' } = await needsPrograms(this, () => tools(['helm']));
    chart = new Chart(helm);
  });

  const find = (objects: Manifest[], kind: string, name: string): Manifest => {
    const found = objects.find((one) => one.kind === kind && one.metadata.name === name);
    assert.ok(found, `${kind} ${name} is not in the chart`);
    return found;
  };

  it('passes lint', async () => {
    const outcome = await chart.helm(['lint', '--strict', chartFolder]);
    assert.equal(outcome.code, 0, outcome.stdout + outcome.stderr);
  });

  it('holds the definitions as they are generated, kept', async () => {
    const objects = await chart.template();
    for (const definition of definitions) {
      const inChart = find(objects, 'CustomResourceDefinition', `${definition.plural}.hearth.storage`);
      assert.deepEqual(inChart.metadata.annotations, { 'helm.sh/resource-policy': 'keep' });
      delete inChart.metadata.annotations;
      assert.deepEqual(inChart, customResourceDefinition(definition));
    }
    const without = await chart.template({ 'crds.install': false });
    assert.ok(!without.some((one) => one.kind === 'CustomResourceDefinition'));
  });

  it('documents every value', () => {
    const text = readFileSync(join(chartFolder, 'values.yaml'), 'utf8');
    const schema = JSON.parse(readFileSync(join(chartFolder, 'values.schema.json'), 'utf8'));
    const values = parse(text);
    interface Described {
      properties?: Record<string, Described>;
      additionalProperties?: unknown;
    }
    const same = (value: object, described: Described, path: string) => {
      const known = Object.keys(described.properties ?? {});
      assert.deepEqual(known.sort(), Object.keys(value).sort(), `values and schema differ at ${path}`);
      for (const [key, one] of Object.entries(value)) {
        const next = described.properties?.[key];
        if (next?.properties && !/esources$/.test(key)) same(one, next, `${path}.${key}`);
      }
    };
    same(values, schema, 'values');
  });

  for (const [what, values, message] of refusals) {
    it(`refuses ${what}`, async () => {
      await assert.rejects(chart.template(values), (error: Error) => {
        assert.match(error.message, /values don't meet the specifications of the schema/);
        assert.match(error.message, message);
        return true;
      });
    });
  }

  it('refuses a Kubernetes that is too old', async () => {
    const outcome = await chart.helm(['template', 'hearth', chartFolder, '--kube-version', '1.29.9']);
    assert.notEqual(outcome.code, 0);
    assert.match(outcome.stderr, /requires kubeVersion: >=1\.30/);
    const same = await chart.helm([
      'template',
      'hearth',
      chartFolder,
      ...flags(someRegistry),
      '--kube-version',
      'v1.33.4-eks-1',
    ]);
    assert.equal(same.code, 0, same.stderr);
  });

  it('gives every pod but csi-node no privileges, and csi-node no token', async () => {
    const objects = await chart.template();
    const node = find(objects, 'DaemonSet', 'hearth-csi-node').spec.template.spec;
    assert.equal(node.automountServiceAccountToken, false);
    assert.equal(node.serviceAccountName, 'hearth-csi-node');
    assert.equal(find(objects, 'ServiceAccount', 'hearth-csi-node').automountServiceAccountToken, false);
    for (const [kind, name] of [
      ['Deployment', 'hearth-operator'],
      ['Job', 'hearth-cleanup'],
    ] as const) {
      const { spec } = find(objects, kind, name).spec.template;
      assert.equal(spec.securityContext.runAsNonRoot, true);
      assert.equal(spec.containers[0].securityContext.readOnlyRootFilesystem, true);
    }
  });

  it('gives programs the variables that they read', async () => {
    const objects = await chart.template(oddValues);
    const variables = (kind: string, name: string): Record<string, string> =>
      Object.fromEntries(
        find(objects, kind, name).spec.template.spec.containers[0].env.map(
          (one: { name: string; value?: string; valueFrom?: { fieldRef: { fieldPath: string } } }) => [
            one.name,
            one.value ?? one.valueFrom?.fieldRef.fieldPath.replace(/^.*\./, '').toLowerCase(),
          ],
        ),
      );
    const node = readConfiguration([], variables('DaemonSet', 'hearth-csi-node'));
    assert.deepEqual(node, {
      node: 'nodename',
      socket: '/opt/k0s/kubelet/plugins/csi.hearth.storage/csi.sock',
      services: 'node',
      cluster: undefined,
      stateDirectory: '/var/lib/hearth',
      kubeletDirectory: '/opt/k0s/kubelet',
      registrationDirectory: '/opt/k0s/kubelet/plugins_registry',
      health: { host: '', port: 8080 },
      nodeGroupsFile: '/etc/hearth/node-groups.json',
      logLevel: 'debug',
      logFormat: 'auto',
    });
    assert.deepEqual(readEnvironment(variables('Deployment', 'hearth-operator')), {
      namespace: 'namespace',
      image: oddValues.image,
      etcdImage: 'local/etcd:1',
      imagePullPolicy: 'Never',
      imagePullSecrets: ['registry', 'other'],
      pods: {
        agent: {
          serviceAccountName: 'hearth-agent',
          mountsToken: false,
          podLabels: { 'azure.workload.identity/use': 'true' },
          podAnnotations: {},
          extraEnv: [{ name: 'NO_PROXY', value: '.svc,10.0.0.0/8' }],
        },
        holder: {
          serviceAccountName: 'hearth-holder',
          podLabels: {},
          podAnnotations: { b: 'off' },
          extraEnv: [],
        },
        etcd: {
          serviceAccountName: 'hearth-etcd',
          podLabels: { team: 'no' },
          podAnnotations: {},
          extraEnv: [],
          nodeSelector: { pool: 'system' },
          tolerations: oddValues['operator.tolerations'],
          affinity: {},
          anyUser: false,
          resources: { requests: { cpu: '50m', memory: '128Mi' }, limits: { memory: '1Gi' } },
          priorityClassName: 'system-cluster-critical',
        },
      },
    });
  });

  it('takes its image from the registry that it is given, with the secrets for it, and has none of its own', async () => {
    const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
    const imagesOf = (objects: Manifest[]) =>
      [...JSON.stringify(objects).matchAll(/"image":"([^"]+)"|"HEARTH_IMAGE","value":"([^"]+)"/g)].map(
        ([, image, variable]) => image ?? variable,
      );
    const secrets = { 'global.imagePullSecrets': ['first', { name: 'second' }], imagePullSecrets: ['first', 'own'] };
    const objects = await chart.template({ 'global.imageRegistry': 'registry.example.com:5000/team/', ...secrets });
    const images = imagesOf(objects);
    assert.equal(images.length, 5);
    assert.deepEqual([...new Set(images)], [`registry.example.com:5000/team/hearth:${version}`]);
    const pods = podSpecs(objects);
    assert.equal(pods.size, 4);
    for (const [name, { imagePullSecrets }] of pods)
      assert.deepEqual(imagePullSecrets, [{ name: 'first' }, { name: 'own' }, { name: 'second' }], name);
    const operator = pods.get('Deployment hearth-operator');
    const names = operator?.containers[0].env.find(
      ({ name }: { name: string }) => name === 'HEARTH_IMAGE_PULL_SECRETS',
    );
    assert.equal(names.value, 'first,own,second');
    await assert.rejects(chart.template({ 'global.imageRegistry': '' }), /none is published.*make image REGISTRY=/s);
    assert.deepEqual([...new Set(imagesOf(await chart.template({ image: 'other/hearth:7' })))], ['other/hearth:7']);
  });

  it('lets the API server ask where the operator listens', async () => {
    const objects = await chart.template({ 'webhook.port': 10_250 });
    const [operator] = find(objects, 'Deployment', 'hearth-operator').spec.template.spec.containers;
    const port = operator.env.find(({ name }: { name: string }) => name === 'HEARTH_WEBHOOK_PORT');
    assert.equal(port.value, '10250');
    assert.deepEqual(operator.ports[1], { name: 'webhook', containerPort: 10_250 });
    const [asked] = find(objects, 'Service', 'hearth-webhook').spec.ports;
    assert.deepEqual([asked.port, asked.targetPort], [443, 'webhook']);
  });

  it('asks no webhook about pods where that is not wanted', async () => {
    const objects = await chart.template({ 'webhook.enabled': false });
    assert.ok(!objects.some(({ kind }) => kind === 'MutatingWebhookConfiguration'));
    assert.ok(!objects.some(({ metadata }) => metadata.name === 'hearth-webhook'));
    const role = find(objects, 'ClusterRole', 'hearth-operator');
    assert.ok(!role.rules.some(({ apiGroups }: { apiGroups: string[] }) => apiGroups[0]?.startsWith('admission')));
    const [operator] = find(objects, 'Deployment', 'hearth-operator').spec.template.spec.containers;
    assert.ok(!operator.env.some(({ name }: { name: string }) => name === 'HEARTH_WEBHOOK_PORT'));
  });

  it('leaves nothing of a test behind, be it passed or failed', async () => {
    const objects = await chart.template();
    const policies = (kind: string) =>
      find(objects, kind, 'hearth-selftest').metadata.annotations?.['helm.sh/hook-delete-policy']?.split(',');
    assert.deepEqual(policies('Pod'), ['before-hook-creation', 'hook-succeeded', 'hook-failed']);
    // Helm deletes what was made before the hook that failed as if all had succeeded.
    assert.deepEqual(policies('Dataset'), ['before-hook-creation', 'hook-succeeded']);
  });

  it('lets the driver do what it can', async () => {
    const driver = find(await chart.template(), 'CSIDriver', 'csi.hearth.storage');
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
      const objects = await chart.template({ 'openshift.enabled': enabled });
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
      const { env } = find(objects, 'Deployment', 'hearth-operator').spec.template.spec.containers[0];
      const settings = env.find(({ name }: { name: string }) => name === 'HEARTH_POD_SETTINGS').value;
      assert.equal(JSON.parse(settings).etcd.anyUser, enabled);
    }
  });

  it('gives agents a token, and rights to read, only where explain asks for them', async () => {
    for (const explain of [true, false]) {
      const objects = await chart.template({ 'rbac.explain': explain });
      const named = objects.filter(({ metadata }) => metadata.name === 'hearth-explain').map(({ kind }) => kind);
      assert.deepEqual(named, explain ? ['ClusterRole', 'ClusterRoleBinding'] : []);
      const { env } = find(objects, 'Deployment', 'hearth-operator').spec.template.spec.containers[0];
      const settings = env.find(({ name }: { name: string }) => name === 'HEARTH_POD_SETTINGS').value;
      assert.equal(JSON.parse(settings).agent.mountsToken, explain);
    }
    assert.deepEqual(await chart.template(), await chart.template({ 'rbac.explain': false }));
  });

  it('counts pods of critical classes, which GKE asks for', async () => {
    const quota = find(await chart.template(), 'ResourceQuota', 'hearth-critical-pods');
    const [scope] = quota.spec.scopeSelector.matchExpressions;
    assert.deepEqual(scope, {
      scopeName: 'PriorityClass',
      operator: 'In',
      values: ['system-node-critical', 'system-cluster-critical'],
    });
    const without = await chart.template({ 'criticalPods.quota': false });
    assert.ok(!without.some(({ kind }) => kind === 'ResourceQuota'));
  });

  it('runs csi-node where pods with volumes run, and on no virtual node', async () => {
    const { tolerations, affinity } = find(await chart.template(), 'DaemonSet', 'hearth-csi-node').spec.template.spec;
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
    const objects = await chart.template({
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
    const { selector, endpoints } = find(objects, 'ServiceMonitor', 'hearth-operator').spec;
    const ofService = ports(selector.matchLabels, services, ({ spec }) => spec.ports);
    assert.equal(ofService.filter((name) => name === endpoints[0].port).length, 1, ofService.join());
    for (const component of ['agent', 'etcd']) {
      const { spec } = find(objects, 'PodMonitor', `hearth-${component}`);
      const names = ports(spec.selector.matchLabels, pods, (pod) => pod.spec.containers[0].ports);
      assert.equal(names.filter((name) => name === spec.podMetricsEndpoints[0].port).length, 1, names.join());
      // The label that becomes storage_cluster.
      const [pod] = pods.filter((one) => one.metadata.labels['app.kubernetes.io/component'] === component);
      assert.equal(pod.metadata.labels['hearth.storage/cluster'], 'models');
    }
  });

  it('carries odd values to where they belong', async () => {
    const objects = await chart.template(oddValues);
    const { spec: deployment } = find(objects, 'Deployment', 'hearth-operator');
    const [operator] = deployment.template.spec.containers;
    const environment = Object.fromEntries(
      operator.env.map((one: { name: string; value?: string }) => [one.name, one.value]),
    );
    assert.equal(deployment.replicas, 1);
    assert.equal(operator.image, oddValues.image);
    assert.equal(environment.HEARTH_IMAGE, oddValues.image);
    assert.equal(environment.HEARTH_ETCD_IMAGE, 'local/etcd:1');
    assert.equal(environment.HEARTH_DATASET_NAMESPACES, 'models,no,0123');
    assert.equal(environment.HEARTH_IMAGE_PULL_SECRETS, 'registry,other');
    assert.deepEqual(deployment.template.spec.imagePullSecrets, [{ name: 'registry' }, { name: 'other' }]);
    assert.deepEqual(deployment.template.spec.affinity, { nodeAffinity: {} });
    assert.equal(deployment.template.metadata.annotations.a, 'yes');
    assert.equal(deployment.template.metadata.annotations['prometheus.io/scrape'], undefined);
    assert.equal(deployment.template.metadata.labels.team, 'y');

    assert.equal(deployment.template.spec.hostNetwork, true);
    const [webhook] = find(objects, 'MutatingWebhookConfiguration', 'hearth-webhook').webhooks;
    assert.deepEqual(webhook.namespaceSelector.matchExpressions, [
      {
        key: 'kubernetes.io/metadata.name',
        operator: 'NotIn',
        values: ['kube-system', 'kube-node-lease', 'hearth-system', 'no'],
      },
    ]);

    const roles = objects.flatMap(({ kind, metadata }) =>
      kind === 'ServiceAccount' ? [`${metadata.name}: ${metadata.annotations?.['example.com/role']}`] : [],
    );
    assert.deepEqual(roles.sort(), [
      'hearth-agent: reader',
      'hearth-cleanup: cleanup',
      'hearth-csi-node: node',
      'hearth-etcd: undefined',
      'hearth-holder: undefined',
      'hearth-operator: operator',
    ]);
    assert.deepEqual(operator.env.at(-1), { name: 'HTTPS_PROXY', value: 'http://proxy:3128' });
    const job = find(objects, 'Job', 'hearth-cleanup').spec.template;
    assert.deepEqual(job.spec.tolerations, [{ operator: 'Exists' }]);
    assert.equal(job.spec.nodeSelector['kubernetes.io/os'], 'linux', 'as the operator');
    assert.equal(job.spec.priorityClassName, 'mine');
    assert.equal(job.metadata.labels.team, 'y');
    assert.deepEqual(job.spec.containers[0].env.at(-1), { name: 'A', value: '1' });
    const test = find(objects, 'Pod', 'hearth-selftest');
    assert.deepEqual(test.spec.nodeSelector, { 'cluster.csi.hearth.storage/main': 'true' });
    assert.deepEqual([test.spec.tolerations, test.metadata.annotations?.c], [[], '1']);

    const node = find(objects, 'DaemonSet', 'hearth-csi-node').spec.template.spec;
    assert.deepEqual(node.affinity, oddValues['csiNode.affinity']);
    assert.equal(node.containers[0].env.at(-1).valueFrom.fieldRef.fieldPath, 'status.hostIP');
    const kubelet = node.volumes.find((one: { name: string }) => one.name === 'kubelet');
    assert.equal(kubelet.hostPath.path, '/opt/k0s/kubelet');
    const bindings = objects.filter((one) => one.kind === 'RoleBinding' && one.metadata.name === 'hearth-secrets');
    assert.deepEqual(
      bindings.map((one) => one.metadata.namespace),
      ['models', 'no', '0123'],
    );

    const storageClass = find(objects, 'StorageClass', 'models');
    assert.deepEqual(storageClass.parameters, { cluster: 'main' });
    const topology = (key: string) => [{ matchLabelExpressions: [{ key, values: ['true'] }] }];
    assert.deepEqual(storageClass.allowedTopologies, topology('cluster.csi.hearth.storage/main'));
    const forAll = find(await chart.template(), 'StorageClass', 'hearth');
    assert.deepEqual(forAll.allowedTopologies, topology('csi.hearth.storage/agent'));
    assert.equal(storageClass.metadata.annotations?.['storageclass.kubernetes.io/is-default-class'], 'true');
    assert.equal(find(objects, 'Dataset', 'hearth-selftest').spec.clusterRef.name, 'main');
    assert.equal(find(objects, 'ServiceMonitor', 'hearth-operator').spec.endpoints[0].interval, '10s');
    for (const [component, port] of Object.entries({ agent: 'health', etcd: 'metrics' })) {
      const { spec } = find(objects, 'PodMonitor', `hearth-${component}`);
      const [endpoint] = spec.podMetricsEndpoints;
      assert.deepEqual([endpoint.port, endpoint.path, endpoint.interval], [port, '/metrics', '20s']);
      assert.equal(spec.selector.matchLabels['app.kubernetes.io/component'], component);
    }
    const alerts = find(objects, 'PrometheusRule', 'hearth');
    assert.equal(alerts.metadata.labels?.release, 'prometheus');
    const text = readFileSync(join(root, 'charts/hearth/monitoring/generated/alerts.yaml'), 'utf8');
    assert.deepEqual(alerts.spec, parse(text.replaceAll('RUNBOOKS', 'https://wiki.example.com/hearth')));
    const dashboards = find(objects, 'ConfigMap', 'hearth-dashboards');
    assert.equal(dashboards.metadata.namespace, 'models');
    assert.deepEqual(Object.keys(dashboards.data).sort(), ['hearth-nodes.json', 'hearth-overview.json']);
    for (const json of Object.values(dashboards.data as Record<string, string>))
      assert.ok(JSON.parse(json).panels.length > 5);
    assert.ok(!objects.some((one) => ['hearth-view', 'hearth-explain'].includes(one.metadata.name)));
  });
});
