import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { customResourceDefinition, definitions } from '@hearth/common/resources';
import { root } from '@hearth/common/testing';
import { chartFolder, flags, type Manifest, podSpecs, someRegistry } from '@hearth/common/testing/kubernetes';
import { parse } from 'yaml';
import { readConfiguration } from '../../csi-driver/src/configuration.ts';
import { readEnvironment } from '../../operator/src/storage_cluster/environment.ts';
import { oddValues } from './odd_values.ts';
import { objectOf, useChart } from './rendered_chart.ts';

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
  const chart = useChart();

  it('passes lint', async () => {
    const outcome = await chart().helm(['lint', '--strict', chartFolder]);
    assert.equal(outcome.code, 0, outcome.stdout + outcome.stderr);
  });

  it('holds the definitions as they are generated, kept', async () => {
    const objects = await chart().template();
    for (const definition of definitions) {
      const inChart = objectOf(objects, 'CustomResourceDefinition', `${definition.plural}.hearth.storage`);
      assert.deepEqual(inChart.metadata.annotations, { 'helm.sh/resource-policy': 'keep' });
      delete inChart.metadata.annotations;
      assert.deepEqual(inChart, customResourceDefinition(definition));
    }
    const without = await chart().template({ 'crds.install': false });
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
      await assert.rejects(chart().template(values), (error: Error) => {
        assert.match(error.message, /values don't meet the specifications of the schema/);
        assert.match(error.message, message);
        return true;
      });
    });
  }

  it('refuses a Kubernetes that is too old', async () => {
    const outcome = await chart().helm(['template', 'hearth', chartFolder, '--kube-version', '1.29.9']);
    assert.notEqual(outcome.code, 0);
    assert.match(outcome.stderr, /requires kubeVersion: >=1\.30/);
    const same = await chart().helm([
      'template',
      'hearth',
      chartFolder,
      ...flags(someRegistry),
      '--kube-version',
      'v1.33.4-eks-1',
    ]);
    assert.equal(same.code, 0, same.stderr);
  });

  it('gives programs the variables that they read', async () => {
    const objects = await chart().template(oddValues);
    const variables = (kind: string, name: string): Record<string, string> =>
      Object.fromEntries(
        objectOf(objects, kind, name).spec.template.spec.containers[0].env.map(
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
    const objects = await chart().template({ 'global.imageRegistry': 'registry.example.com:5000/team/', ...secrets });
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
    await assert.rejects(chart().template({ 'global.imageRegistry': '' }), /none is published.*make image REGISTRY=/s);
    assert.deepEqual([...new Set(imagesOf(await chart().template({ image: 'other/hearth:7' })))], ['other/hearth:7']);
  });

  it('lets the API server ask where the operator listens', async () => {
    const objects = await chart().template({ 'webhook.port': 10_250 });
    const [operator] = objectOf(objects, 'Deployment', 'hearth-operator').spec.template.spec.containers;
    const port = operator.env.find(({ name }: { name: string }) => name === 'HEARTH_WEBHOOK_PORT');
    assert.equal(port.value, '10250');
    assert.deepEqual(operator.ports[1], { name: 'webhook', containerPort: 10_250 });
    const [asked] = objectOf(objects, 'Service', 'hearth-webhook').spec.ports;
    assert.deepEqual([asked.port, asked.targetPort], [443, 'webhook']);
  });

  it('asks no webhook about pods where that is not wanted', async () => {
    const objects = await chart().template({ 'webhook.enabled': false });
    assert.ok(!objects.some(({ kind }) => kind === 'MutatingWebhookConfiguration'));
    assert.ok(!objects.some(({ metadata }) => metadata.name === 'hearth-webhook'));
    const role = objectOf(objects, 'ClusterRole', 'hearth-operator');
    assert.ok(!role.rules.some(({ apiGroups }: { apiGroups: string[] }) => apiGroups[0]?.startsWith('admission')));
    const [operator] = objectOf(objects, 'Deployment', 'hearth-operator').spec.template.spec.containers;
    assert.ok(!operator.env.some(({ name }: { name: string }) => name === 'HEARTH_WEBHOOK_PORT'));
  });

  it('leaves nothing of a test behind, be it passed or failed', async () => {
    const objects = await chart().template();
    const policies = (kind: string) =>
      objectOf(objects, kind, 'hearth-selftest').metadata.annotations?.['helm.sh/hook-delete-policy']?.split(',');
    assert.deepEqual(policies('Pod'), ['before-hook-creation', 'hook-succeeded', 'hook-failed']);
    // Helm deletes what was made before the hook that failed as if all had succeeded.
    assert.deepEqual(policies('Dataset'), ['before-hook-creation', 'hook-succeeded']);
  });

  it('carries odd values to where they belong', async () => {
    const objects = await chart().template(oddValues);
    const { spec: deployment } = objectOf(objects, 'Deployment', 'hearth-operator');
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
    const [webhook] = objectOf(objects, 'MutatingWebhookConfiguration', 'hearth-webhook').webhooks;
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
    const job = objectOf(objects, 'Job', 'hearth-cleanup').spec.template;
    assert.deepEqual(job.spec.tolerations, [{ operator: 'Exists' }]);
    assert.equal(job.spec.nodeSelector['kubernetes.io/os'], 'linux', 'as the operator');
    assert.equal(job.spec.priorityClassName, 'mine');
    assert.equal(job.metadata.labels.team, 'y');
    assert.deepEqual(job.spec.containers[0].env.at(-1), { name: 'A', value: '1' });
    const test = objectOf(objects, 'Pod', 'hearth-selftest');
    assert.deepEqual(test.spec.nodeSelector, { 'cluster.csi.hearth.storage/main': 'true' });
    assert.deepEqual([test.spec.tolerations, test.metadata.annotations?.c], [[], '1']);

    const node = objectOf(objects, 'DaemonSet', 'hearth-csi-node').spec.template.spec;
    assert.deepEqual(node.affinity, oddValues['csiNode.affinity']);
    assert.equal(node.containers[0].env.at(-1).valueFrom.fieldRef.fieldPath, 'status.hostIP');
    const kubelet = node.volumes.find((one: { name: string }) => one.name === 'kubelet');
    assert.equal(kubelet.hostPath.path, '/opt/k0s/kubelet');
    const bindings = objects.filter((one) => one.kind === 'RoleBinding' && one.metadata.name === 'hearth-secrets');
    assert.deepEqual(
      bindings.map((one) => one.metadata.namespace),
      ['models', 'no', '0123'],
    );

    const storageClass = objectOf(objects, 'StorageClass', 'models');
    assert.deepEqual(storageClass.parameters, { cluster: 'main' });
    const topology = (key: string) => [{ matchLabelExpressions: [{ key, values: ['true'] }] }];
    assert.deepEqual(storageClass.allowedTopologies, topology('cluster.csi.hearth.storage/main'));
    const scratch = objectOf(objects, 'StorageClass', 'kv');
    assert.deepEqual([scratch.parameters, scratch.reclaimPolicy], [{ cluster: 'main', kind: 'scratch' }, 'Retain']);
    const unnamed = await chart().template();
    assert.deepEqual(objectOf(unnamed, 'StorageClass', 'hearth-scratch').parameters, { kind: 'scratch' });
    const forAll = objectOf(unnamed, 'StorageClass', 'hearth');
    assert.deepEqual(forAll.allowedTopologies, topology('csi.hearth.storage/agent'));
    assert.equal(storageClass.metadata.annotations?.['storageclass.kubernetes.io/is-default-class'], 'true');
    assert.equal(objectOf(objects, 'Dataset', 'hearth-selftest').spec.clusterRef.name, 'main');
    assert.equal(objectOf(objects, 'ServiceMonitor', 'hearth-operator').spec.endpoints[0].interval, '10s');
    for (const [component, port] of Object.entries({ agent: 'health', etcd: 'metrics' })) {
      const { spec } = objectOf(objects, 'PodMonitor', `hearth-${component}`);
      const [endpoint] = spec.podMetricsEndpoints;
      assert.deepEqual([endpoint.port, endpoint.path, endpoint.interval], [port, '/metrics', '20s']);
      assert.equal(spec.selector.matchLabels['app.kubernetes.io/component'], component);
    }
    const alerts = objectOf(objects, 'PrometheusRule', 'hearth');
    assert.equal(alerts.metadata.labels?.release, 'prometheus');
    const text = readFileSync(join(root, 'charts/hearth/monitoring/generated/alerts.yaml'), 'utf8');
    assert.deepEqual(alerts.spec, parse(text.replaceAll('RUNBOOKS', 'https://wiki.example.com/hearth')));
    const dashboards = objectOf(objects, 'ConfigMap', 'hearth-dashboards');
    assert.equal(dashboards.metadata.namespace, 'models');
    assert.deepEqual(Object.keys(dashboards.data).sort(), ['hearth-nodes.json', 'hearth-overview.json']);
    for (const json of Object.values(dashboards.data as Record<string, string>))
      assert.ok(JSON.parse(json).panels.length > 5);
    assert.ok(!objects.some((one) => one.metadata.name === 'hearth-view'));
  });
});
