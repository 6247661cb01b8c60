import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseAllDocuments } from 'yaml';
import { TestApiServer } from '../cluster/api_server.ts';
import { ToolUnavailable, tools } from '../cluster/tools/build.ts';
import { root, until } from '../src/command.ts';
import { skip } from '../src/needs.ts';
import { Admission, type Answer } from './admission.ts';
import { Chart, chartFolder, collectionPath, flags, type Manifest, releaseNamespace } from './chart.ts';
import { oddValues } from './odd_values.ts';

const operator = `system:serviceaccount:${releaseNamespace}:hearth-operator`;
const cleanup = `system:serviceaccount:${releaseNamespace}:hearth-cleanup`;

/** Resources are `group/resource/subresource=name`, all but the resource if there is one. */
type Right = [user: string, verb: string, resource: string, namespace: string, allowed: boolean];
const rights: Right[] = [
  [operator, 'patch', 'hearth.storage/storageclusters', '', true],
  [operator, 'delete', 'hearth.storage/storageclusters', '', false],
  [operator, 'patch', 'hearth.storage/storageclusters/status', '', true],
  [operator, 'patch', 'hearth.storage/datasets/status', 'models', true],
  [operator, 'delete', 'hearth.storage/datasets', 'models', false],
  [operator, 'create', 'hearth.storage/nodecaches', '', true],
  [operator, 'create', 'apps/daemonsets', releaseNamespace, true],
  [operator, 'create', 'apps/daemonsets', 'models', false],
  [operator, 'create', 'apps/deployments', releaseNamespace, false],
  [operator, 'create', 'secrets', releaseNamespace, true],
  [operator, 'get', 'secrets', 'models', true],
  [operator, 'list', 'secrets', 'models', false],
  [operator, 'watch', 'secrets', 'models', false],
  [operator, 'get', 'secrets', 'default', false],
  [operator, 'get', 'secrets', 'kube-system', false],
  [operator, 'list', 'secrets', '', false],
  [operator, 'patch', 'nodes', '', true],
  [operator, 'update', 'nodes', '', false],
  [operator, 'patch', 'nodes/status', '', false],
  [operator, 'get', 'nodes/proxy', '', false],
  [operator, 'list', 'pods', '', true],
  [operator, 'create', 'pods', 'default', false],
  [operator, 'delete', 'pods', 'default', false],
  [operator, 'create', 'pods/exec', releaseNamespace, false],
  [operator, 'create', 'serviceaccounts/token', releaseNamespace, false],
  [operator, 'create', 'persistentvolumes', '', true],
  [operator, 'delete', 'persistentvolumeclaims', 'default', false],
  [operator, 'delete', 'persistentvolumeclaims', releaseNamespace, false],
  [operator, 'create', 'rbac.authorization.k8s.io/rolebindings', 'default', false],
  [operator, 'escalate', 'rbac.authorization.k8s.io/clusterroles', '', false],
  [operator, 'update', 'coordination.k8s.io/leases', releaseNamespace, true],
  [operator, 'update', 'coordination.k8s.io/leases', 'kube-system', false],
  // What is watched is not read one by one.
  [operator, 'get', 'hearth.storage/storageclusters', '', false],
  [operator, 'get', 'hearth.storage/datasets', 'models', true],
  [operator, 'get', 'hearth.storage/storageclusters', '', false],
  [operator, 'create', 'hearth.storage/cachepreloads', 'models', true],
  [operator, 'patch', 'hearth.storage/cachepreloads/status', 'models', true],
  [operator, 'get', 'hearth.storage/datasets/status', 'models', false],
  [operator, 'get', 'hearth.storage/nodecaches', '', false],
  [operator, 'get', 'pods', 'default', true],
  [operator, 'patch', 'pods', 'default', true],
  [operator, 'update', 'pods', 'default', false],
  [operator, 'patch', 'pods/status', 'default', false],
  [operator, 'patch', 'admissionregistration.k8s.io/mutatingwebhookconfigurations', '', false],
  [operator, 'patch', 'admissionregistration.k8s.io/mutatingwebhookconfigurations=hearth-webhook', '', true],
  [operator, 'delete', 'admissionregistration.k8s.io/mutatingwebhookconfigurations=hearth-webhook', '', false],
  [operator, 'get', 'storage.k8s.io/storageclasses', '', false],
  [operator, 'get', 'apps/daemonsets', releaseNamespace, false],
  [operator, 'get', 'apps/statefulsets', releaseNamespace, false],
  [operator, 'get', 'services', releaseNamespace, false],
  [operator, 'get', 'policy/poddisruptionbudgets', releaseNamespace, false],
  [operator, 'delete', 'coordination.k8s.io/leases', releaseNamespace, false],
  [operator, 'list', 'coordination.k8s.io/leases', releaseNamespace, false],
  [cleanup, 'delete', 'hearth.storage/storageclusters', '', true],
  [cleanup, 'get', 'hearth.storage/storageclusters', '', false],
  [cleanup, 'watch', 'hearth.storage/storageclusters', '', false],
  [cleanup, 'watch', 'hearth.storage/datasets', 'models', false],
  [cleanup, 'list', 'hearth.storage/cachepreloads', 'models', true],
  [cleanup, 'delete', 'hearth.storage/cachepreloads', 'models', false],
  [cleanup, 'get', 'persistentvolumes', '', false],
  [cleanup, 'get', 'nodes', '', false],
  [cleanup, 'get', 'apps/daemonsets', releaseNamespace, false],
  [cleanup, 'get', 'secrets', releaseNamespace, false],
  [cleanup, 'watch', 'secrets', releaseNamespace, false],
  [cleanup, 'list', 'secrets', releaseNamespace, true],
  [cleanup, 'watch', 'pods', releaseNamespace, false],
  [cleanup, 'list', 'coordination.k8s.io/leases', releaseNamespace, false],
  [cleanup, 'patch', 'apps/deployments', releaseNamespace, false],
  [cleanup, 'delete', 'hearth.storage/datasets', 'models', false],
  [cleanup, 'delete', 'apps/daemonsets', releaseNamespace, true],
  [cleanup, 'list', 'pods', releaseNamespace, true],
  [cleanup, 'delete', 'pods', releaseNamespace, false],
  [cleanup, 'get', 'secrets', 'default', false],
  [cleanup, 'delete', 'persistentvolumes', '', false],
  [`system:serviceaccount:${releaseNamespace}:default`, 'get', 'hearth.storage/datasets', 'models', false],
  [`system:serviceaccount:${releaseNamespace}:default`, 'get', 'secrets', releaseNamespace, false],
];

describe('chart on an API server', function () {
  this.timeout(120_000);
  let server: TestApiServer;
  let admin: Admission;
  let chart: Chart;

  before(async function () {
    this.timeout(30 * 60_000); // The first run on a machine builds the programs.
    try {
      const { helm = '' } = await tools(['helm']);
      chart = new Chart(helm);
      server = await TestApiServer.start();
    } catch (error) {
      if (error instanceof ToolUnavailable) skip(this, error.message);
      throw error;
    }
    admin = new Admission(server.kubeconfig);
    for (const name of ['models', 'no', '0123'])
      await create({ kind: 'Namespace', apiVersion: 'v1', metadata: { name } });
    await helm(
      'install',
      'hearth',
      chartFolder,
      '-n',
      releaseNamespace,
      '--create-namespace',
      ...flags({ datasetNamespaces: ['models'] }),
    );
    const datasets = '/apis/hearth.storage/v1alpha1/datasets';
    await until('Datasets served', async () => (await admin.ask('GET', datasets)).code === 200);
  });
  after(() => server?.stop());

  async function helm(...args: string[]): Promise<string> {
    const outcome = await chart.helm(args, server.kubeconfig);
    assert.equal(outcome.code, 0, outcome.stderr);
    return outcome.stdout;
  }
  async function create(object: Manifest): Promise<Answer> {
    const answer = await admin.create(collectionPath(object), object);
    assert.equal(answer.code, 201, JSON.stringify(answer.causes));
    return answer;
  }

  it('is taken as it is, and with odd values, by the API server', async () => {
    for (const values of [{}, oddValues]) {
      for (const object of await chart.template(values)) {
        if (object.kind === 'ServiceMonitor') continue; // Of the Prometheus operator, which is not here.
        const path = `${collectionPath(object)}/${object.metadata.name}`;
        const query = '?dryRun=All&fieldManager=other&force=true&fieldValidation=Strict';
        const answer = await admin.ask('PATCH', `${path}${query}`, object, 'application/apply-patch+yaml');
        assert.ok(answer.code < 300, `${object.kind} ${object.metadata.name}: ${JSON.stringify(answer.causes)}`);
      }
    }
  });

  it('has examples that the API server takes', async () => {
    const files = globSync(join(root, 'examples/*.yaml'));
    assert.ok(files.length >= 4);
    for (const file of files) {
      for (const document of parseAllDocuments(readFileSync(file, 'utf8'), { version: '1.1' })) {
        const object = document.toJS() as Manifest;
        const answer = await admin.create(collectionPath(object), object, { dryRun: true });
        assert.equal(answer.code, 201, `${file}: ${JSON.stringify(answer.causes)}`);
      }
    }
  });

  it('makes pods that the restricted level admits, but for csi-node', async () => {
    const labels = { 'pod-security.kubernetes.io/enforce': 'restricted' };
    await create({ kind: 'Namespace', apiVersion: 'v1', metadata: { name: 'restricted', labels } });
    const tried = async (object: Manifest): Promise<Answer> => {
      const { spec } = object.kind === 'Pod' ? object : object.spec.template;
      const pod = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'tried', namespace: 'restricted' }, spec };
      return admin.create(
        collectionPath(pod),
        { ...pod, spec: { ...spec, priorityClassName: undefined } },
        { dryRun: true },
      );
    };
    const pods = (await chart.template()).filter((one) => ['Deployment', 'DaemonSet', 'Job', 'Pod'].includes(one.kind));
    assert.equal(pods.length, 4);
    for (const object of pods) {
      const answer = await tried(object);
      if (object.metadata.name === 'hearth-csi-node')
        assert.match(JSON.stringify(answer.causes), /PodSecurity.*privileged/);
      else assert.equal(answer.code, 201, `${object.metadata.name}: ${JSON.stringify(answer.causes)}`);
    }
  });

  it('gives each part the rights that it needs and no more', async () => {
    const wrong: string[] = [];
    for (const [user, verb, path, namespace, allowed] of rights) {
      const [resourcePath = '', name] = path.split('=');
      const parts = resourcePath.split('/');
      const group =
        (parts[0]?.includes('.') ?? false) || ['apps', 'policy'].includes(parts[0] ?? '') ? (parts.shift() ?? '') : '';
      const [resource = '', subresource] = parts;
      const answer = await admin.create('/apis/authorization.k8s.io/v1/subjectaccessreviews', {
        apiVersion: 'authorization.k8s.io/v1',
        kind: 'SubjectAccessReview',
        spec: { user, resourceAttributes: { verb, group, resource, subresource, namespace, name } },
      });
      if (answer.body.status.allowed !== allowed) wrong.push(`${user} ${verb} ${path} in "${namespace}": ${!allowed}`);
    }
    assert.deepEqual(wrong, []);
  });

  it("holds the operator's writes on nodes to the startup taint", async () => {
    const startup = { key: 'hearth.storage/agent-not-ready', effect: 'NoSchedule' };
    const gpu = { key: 'gpu', value: 'yes', effect: 'NoSchedule' };
    const node: Manifest = {
      apiVersion: 'v1',
      kind: 'Node',
      metadata: { name: 'node-1', labels: { zone: 'a' } },
      spec: { taints: [startup, gpu] },
    };
    // The API server adds one of its own.
    const others = (await create(node)).body.spec.taints.filter((one: { key: string }) => one.key !== startup.key);
    assert.ok(others.length >= 1);
    const path = '/api/v1/nodes/node-1';
    await policyActive('hearth-node-updates', path);
    for (const user of [operator, cleanup]) {
      const hearth = new Admission(server.kubeconfig, user);
      const refuses = async (what: string, patch: object, message = /Hearth changes/): Promise<void> => {
        const answer = await hearth.merge(path, patch);
        assert.equal(answer.code, 422, `${what}: ${answer.code}`);
        assert.match(JSON.stringify(answer.causes), message);
      };
      const noTaint = /no taint but/;
      const withTaints = (...taints: object[]) => ({ spec: { taints } });
      await refuses('another taint taken away', withTaints(startup, ...others.slice(1)), noTaint);
      await refuses('another taint added', withTaints(startup, ...others, { ...gpu, key: 'more' }), noTaint);
      await refuses(
        'another taint changed',
        withTaints(startup, { ...others[0], value: 'x' }, ...others.slice(1)),
        noTaint,
      );
      await refuses('cordoned', { spec: { unschedulable: true } });
      await refuses('labelled', { metadata: { labels: { zone: 'b' } } }, /no metadata/);
      await refuses(
        'a new label',
        { metadata: { labels: { 'node-role.kubernetes.io/control-plane': '' } } },
        /no metadata/,
      );
      await refuses('annotated', { metadata: { annotations: { a: 'b' } } }, /no metadata/);
      await refuses('provider', { spec: { providerID: 'aws://x' } });
      for (const taints of [others, [startup, ...others]]) {
        const answer = await hearth.merge(path, { spec: { taints } });
        assert.equal(answer.code, 200, JSON.stringify(answer.causes));
      }
    }
    assert.equal((await admin.merge(path, { metadata: { labels: { zone: 'c' } } })).code, 200, 'others are not held');
  });

  it("holds the operator's writes on pods to gates and affinity", async () => {
    // More than the chart gives, so that it is the policy that refuses.
    const role = { apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'ClusterRole', metadata: { name: 'pods' } };
    await create({ ...role, rules: [{ apiGroups: [''], resources: ['pods', 'pods/*'], verbs: ['*'] }] });
    await create({
      ...role,
      kind: 'ClusterRoleBinding',
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'pods' },
      subjects: [{ kind: 'User', name: operator, apiGroup: 'rbac.authorization.k8s.io' }],
    });
    const gate = { name: 'hearth.storage/preload' };
    const foreign = { name: 'example.com/quota' };
    const pod: Manifest = {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'gated', namespace: 'default', labels: { app: 'a' } },
      spec: { schedulingGates: [gate, foreign], containers: [{ name: 'main', image: 'a:1' }] },
    };
    const { tolerations } = (await create(pod)).body.spec;
    const path = '/api/v1/namespaces/default/pods/gated';
    await policyActive('hearth-pod-updates', path);
    const hearth = new Admission(server.kubeconfig, operator);
    const refuses = async (what: string, answer: Promise<Answer>, message = /Hearth changes/): Promise<void> => {
      const { code, causes } = await answer;
      assert.equal(code, 422, `${what}: ${code} ${JSON.stringify(causes)}`);
      assert.match(JSON.stringify(causes), message);
    };
    await refuses('another gate', hearth.merge(path, { spec: { schedulingGates: [gate] } }), /no scheduling gate but/);
    await refuses(
      'an image',
      hearth.merge(path, { spec: { containers: [{ name: 'main', image: 'b:1' }] } }),
      /no image/,
    );
    await refuses('a label', hearth.merge(path, { metadata: { labels: { app: 'b' } } }), /no metadata/);
    await refuses(
      'a toleration',
      hearth.merge(path, { spec: { tolerations: [...tolerations, { operator: 'Exists' }] } }),
    );
    await refuses('a deadline', hearth.merge(path, { spec: { activeDeadlineSeconds: 5 } }));
    await refuses('a node selector', hearth.merge(path, { spec: { nodeSelector: { a: 'b' } } }));
    await refuses('deleted', hearth.ask('DELETE', path));
    await refuses('made', hearth.create('/api/v1/namespaces/default/pods', { ...pod, metadata: { name: 'other' } }));
    const terms = [{ matchExpressions: [{ key: 'kubernetes.io/hostname', operator: 'In', values: ['node-1'] }] }];
    const nodeAffinity = { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: terms } };
    const tightened = await hearth.merge(path, { spec: { affinity: { nodeAffinity }, schedulingGates: [foreign] } });
    assert.equal(tightened.code, 200, JSON.stringify(tightened.causes));
  });

  it("holds the operator's writes on volumes to those of the driver", async () => {
    const volume = (name: string, source: object): Manifest => ({
      apiVersion: 'v1',
      kind: 'PersistentVolume',
      metadata: { name, finalizers: ['hearth.storage/finalizer', 'example.org/kept'] },
      spec: {
        capacity: { storage: '1Gi' },
        accessModes: ['ReadOnlyMany'],
        storageClassName: 'hearth',
        persistentVolumeReclaimPolicy: 'Retain',
        ...source,
      },
    });
    const csi = { driver: 'csi.hearth.storage', volumeHandle: 'pvc-1' };
    const ours = { csi };
    const foreign = { hostPath: { path: '/' } };
    const all = '/api/v1/persistentvolumes';
    const path = (name: string) => `${all}/${name}`;
    for (const [name, source] of Object.entries({ foreign, ours, taken: ours })) await create(volume(name, source));
    await policyActive('hearth-volume-updates', path('foreign'));
    for (const user of [operator, cleanup]) {
      const hearth = new Admission(server.kubeconfig, user);
      // The API server has added one of its own.
      const kept = ['example.org/kept', 'kubernetes.io/pv-protection'];
      const finalizers = { metadata: { finalizers: kept } };
      const refuses = async (what: string, asked: Promise<Answer>, message: RegExp): Promise<void> => {
        const { code, causes } = await asked;
        assert.equal(code, 422, `${what}: ${code} ${JSON.stringify(causes)}`);
        assert.match(JSON.stringify(causes), message);
      };
      const only = /only volumes of csi\.hearth\.storage/;
      await refuses("a foreign one's finalizer taken away", hearth.merge(path('foreign'), finalizers), only);
      const limits = { spec: { capacity: { storage: '2Gi' } } };
      await refuses('another size', hearth.merge(path('ours'), limits), /changes no spec/);
      await refuses(
        'kept no more',
        hearth.merge(path('ours'), { spec: { persistentVolumeReclaimPolicy: 'Delete' } }),
        /no spec/,
      );
      await refuses('a label', hearth.merge(path('ours'), { metadata: { labels: { a: 'b' } } }), /no metadata/);
      await refuses("others' finalizers", hearth.merge(path('ours'), { metadata: { finalizers: [] } }), /no metadata/);
      const dropped = await hearth.merge(path('ours'), finalizers);
      assert.equal(dropped.code, 200, JSON.stringify(dropped.causes));
      const again = { metadata: { finalizers: ['hearth.storage/finalizer', ...kept] } };
      assert.equal((await admin.merge(path('ours'), again)).code, 200);
    }
    const hearth = new Admission(server.kubeconfig, operator);
    const made = async (source: object, message?: RegExp): Promise<void> => {
      const { code, causes } = await hearth.create(all, volume('made', source), { dryRun: true });
      if (message === undefined) assert.equal(code, 201, JSON.stringify(causes));
      else {
        assert.equal(code, 422);
        assert.match(JSON.stringify(causes), message);
      }
    };
    await made(foreign, /only volumes of/);
    await made({ csi: { ...csi, driver: 'csi.example.org' } }, /only volumes of/);
    const secret = { name: 's', namespace: 'kube-system' };
    await made({ csi: { ...csi, nodePublishSecretRef: secret } }, /name Secrets/);
    await made({ csi: { ...csi, nodeStageSecretRef: secret } }, /name Secrets/);
    await made(ours);
    const refused = await hearth.ask('DELETE', path('foreign'));
    assert.equal(refused.code, 422, JSON.stringify(refused.causes));
    assert.equal((await hearth.ask('DELETE', path('taken'))).code, 200);
    assert.equal((await admin.merge(path('foreign'), { spec: { capacity: { storage: '2Gi' } } })).code, 200);
  });

  /** Policies come into force a moment after they are made. */
  async function policyActive(name: string, path: string): Promise<void> {
    const hearth = new Admission(server.kubeconfig, operator);
    await until(`${name} in force`, async () => {
      const answer = await hearth.ask(
        'PATCH',
        `${path}?dryRun=All`,
        { metadata: { labels: { probe: 'a' } } },
        'application/merge-patch+json',
      );
      return JSON.stringify(answer.causes).includes(name);
    });
    const answer = await admin.ask('GET', `/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/${name}`);
    // Types are checked by the controller manager, which is not here; a broken expression is refused at once.
    assert.equal(answer.body.spec.failurePolicy, 'Fail');
  }

  it('lets people of a namespace have Datasets and CachePreloads', async () => {
    // Aggregation is done by the controller manager; here the labels must be right.
    const { body } = await admin.ask('GET', '/apis/rbac.authorization.k8s.io/v1/clusterroles/hearth-edit');
    assert.equal(body.metadata.labels['rbac.authorization.k8s.io/aggregate-to-edit'], 'true');
    assert.ok(body.rules.every((one: { resources: string[] }) => one.resources.join() === 'datasets,cachepreloads'));
  });

  it('is upgraded, and leaves only its definitions behind', async () => {
    const mark = { label: 'app.kubernetes.io/instance=hearth' };
    const listed = async (): Promise<string[]> => {
      const kinds =
        'deployments,daemonsets,jobs,services,poddisruptionbudgets,serviceaccounts,roles,rolebindings,clusterroles,clusterrolebindings,csidrivers,storageclasses,validatingadmissionpolicies,validatingadmissionpolicybindings,mutatingwebhookconfigurations';
      const outcome = await server.kubectl(['get', kinds, '-A', '-l', mark.label, '-o', 'name']);
      assert.equal(outcome.code, 0, outcome.stderr);
      return outcome.stdout.split('\n').filter((one) => one !== '');
    };
    const before = await listed();
    assert.ok(before.length > 15, before.join());
    const webhook = '/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/hearth-webhook';
    const caBundle = Buffer.from('-----BEGIN CERTIFICATE-----\n').toString('base64');
    const written = await new Admission(server.kubeconfig, operator).ask(
      'PATCH',
      `${webhook}?fieldManager=hearth-operator&force=true`,
      {
        apiVersion: 'admissionregistration.k8s.io/v1',
        kind: 'MutatingWebhookConfiguration',
        metadata: { name: 'hearth-webhook' },
        webhooks: [{ name: 'pods.hearth.storage', clientConfig: { caBundle } }],
      },
      'application/apply-patch+yaml',
    );
    assert.equal(written.code, 200, JSON.stringify(written.causes));
    await helm(
      'upgrade',
      'hearth',
      chartFolder,
      '-n',
      releaseNamespace,
      ...flags({ 'storageClass.name': 'models', logLevel: 'debug', 'webhook.excludedNamespaces': ['quiet'] }),
    );
    const [asked] = (await admin.ask('GET', webhook)).body.webhooks;
    assert.equal(asked.clientConfig.caBundle, caBundle, 'what the operator wrote stays');
    assert.ok(asked.namespaceSelector.matchExpressions[0].values.includes('quiet'));
    const after = await listed();
    assert.ok(after.includes('storageclass.storage.k8s.io/models'));
    assert.ok(!after.includes('storageclass.storage.k8s.io/hearth'));
    assert.match(
      await helm('get', 'notes', 'hearth', '-n', releaseNamespace),
      /helm test hearth --namespace hearth-system/,
    );

    // The hook needs somebody who runs its pod.
    const kept = await helm('uninstall', 'hearth', '-n', releaseNamespace, '--no-hooks');
    assert.match(kept, /kept due to the resource policy/);
    assert.deepEqual(await listed(), []);
    const crds = await server.kubectl(['get', 'crds', '-o', 'name']);
    assert.equal(crds.stdout.trim().split('\n').length, 4);
    await helm('install', 'hearth', chartFolder, '-n', releaseNamespace);
  });
});
