import assert from 'node:assert/strict';
import { until } from '@hearth/common/testing';
import {
  Admission,
  type Answer,
  type Chart,
  cleanupUser,
  collectionPath,
  type Manifest,
  operatorUser,
  releaseNamespace,
} from '@hearth/common/testing/kubernetes';
import { readEnvironment } from '../../operator/src/storage_cluster/environment.ts';
import { desired } from '../../operator/src/storage_cluster/objects/index.ts';
import { sampleCluster } from '../../operator/src/storage_cluster/testing/samples.ts';
import { InstalledChart } from './installed_chart.ts';

describe('policies of the chart on an API server', () => {
  let installed: InstalledChart;
  let admin: Admission;

  before(async function () {
    installed = await InstalledChart.start(this);
    ({ admin } = installed);
    await installed.beginUninstall();
  });
  after(() => installed?.stop());

  /** Policies come into force a moment after they are made. */
  async function policyActive(name: string, path: string): Promise<void> {
    const hearth = new Admission(installed.server.kubeconfig, operatorUser);
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

  it("holds the operator's writes on nodes to the startup taint and its labels", async () => {
    const startup = { key: 'hearth.storage/agent-not-ready', effect: 'NoSchedule' };
    const gpu = { key: 'gpu', value: 'yes', effect: 'NoSchedule' };
    const node: Manifest = {
      apiVersion: 'v1',
      kind: 'Node',
      metadata: { name: 'node-1', labels: { zone: 'a' } },
      spec: { taints: [startup, gpu] },
    };
    // The API server adds one of its own.
    const others = (await installed.create(node)).body.spec.taints.filter(
      (one: { key: string }) => one.key !== startup.key,
    );
    assert.ok(others.length >= 1);
    const path = '/api/v1/nodes/node-1';
    await policyActive('hearth-node-updates', path);
    for (const user of [operatorUser, cleanupUser]) {
      const hearth = new Admission(installed.server.kubeconfig, user);
      const refuses = async (what: string, patch: object, message = /Hearth changes/): Promise<void> => {
        const answer = await hearth.merge(path, patch);
        assert.equal(answer.code, 422, `${what}: ${answer.code}`);
        assert.match(JSON.stringify(answer.causes), message);
      };
      const noTaint = /no taint but/;
      const withTaints = (...taints: object[]) => ({ spec: { taints } });
      await refuses('another taint removed', withTaints(startup, ...others.slice(1)), noTaint);
      await refuses('another taint added', withTaints(startup, ...others, { ...gpu, key: 'more' }), noTaint);
      await refuses(
        'another taint changed',
        withTaints(startup, { ...others[0], value: 'x' }, ...others.slice(1)),
        noTaint,
      );
      await refuses('cordoned', { spec: { unschedulable: true } });
      await refuses('labelled', { metadata: { labels: { zone: 'b' } } }, /no label of nodes but/);
      await refuses(
        'a new label',
        { metadata: { labels: { 'node-role.kubernetes.io/control-plane': '' } } },
        /no label of nodes but/,
      );
      await refuses('a label removed', { metadata: { labels: { zone: null } } }, /no label of nodes but/);
      await refuses('annotated', { metadata: { annotations: { a: 'b' } } }, /no metadata/);
      await refuses('provider', { spec: { providerID: 'aws://x' } });
      for (const taints of [others, [startup, ...others]]) {
        const answer = await hearth.merge(path, { spec: { taints } });
        assert.equal(answer.code, 200, JSON.stringify(answer.causes));
      }
      for (const value of ['true', null]) {
        const labels = {
          'csi.hearth.storage/agent': value,
          'cluster.csi.hearth.storage/main': value,
          'agents.hearth.storage/main': value,
        };
        const answer = await hearth.merge(path, { metadata: { labels } });
        assert.equal(answer.code, 200, JSON.stringify(answer.causes));
      }
    }
    assert.equal((await admin.merge(path, { metadata: { labels: { zone: 'c' } } })).code, 200, 'others are not held');
  });

  it("holds the operator's writes on pods to gates and affinity", async () => {
    // More than the chart gives, so that it is the policy that refuses.
    const role = { apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'ClusterRole', metadata: { name: 'pods' } };
    await installed.create({ ...role, rules: [{ apiGroups: [''], resources: ['pods', 'pods/*'], verbs: ['*'] }] });
    await installed.create({
      ...role,
      kind: 'ClusterRoleBinding',
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'pods' },
      subjects: [{ kind: 'User', name: operatorUser, apiGroup: 'rbac.authorization.k8s.io' }],
    });
    const gate = { name: 'hearth.storage/preload' };
    const foreign = { name: 'example.com/quota' };
    const pod: Manifest = {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'gated', namespace: 'default', labels: { app: 'a' } },
      spec: { schedulingGates: [gate, foreign], containers: [{ name: 'main', image: 'a:1' }] },
    };
    const { tolerations } = (await installed.create(pod)).body.spec;
    const path = '/api/v1/namespaces/default/pods/gated';
    await policyActive('hearth-pod-updates', path);
    const hearth = new Admission(installed.server.kubeconfig, operatorUser);
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
    for (const [name, source] of Object.entries({ foreign, ours, taken: ours }))
      await installed.create(volume(name, source));
    await policyActive('hearth-volume-updates', path('foreign'));
    for (const user of [operatorUser, cleanupUser]) {
      const hearth = new Admission(installed.server.kubeconfig, user);
      // The API server has added one of its own.
      const kept = ['example.org/kept', 'kubernetes.io/pv-protection'];
      const finalizers = { metadata: { finalizers: kept } };
      const refuses = async (what: string, asked: Promise<Answer>, message: RegExp): Promise<void> => {
        const { code, causes } = await asked;
        assert.equal(code, 422, `${what}: ${code} ${JSON.stringify(causes)}`);
        assert.match(JSON.stringify(causes), message);
      };
      const only = /only volumes of csi\.hearth\.storage/;
      await refuses("a foreign one's finalizer removed", hearth.merge(path('foreign'), finalizers), only);
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
    const hearth = new Admission(installed.server.kubeconfig, operatorUser);
    const nodeAffinity = (value: string) => {
      const matchExpressions = [{ key: 'cluster.csi.hearth.storage/main', operator: 'In', values: [value] }];
      return { required: { nodeSelectorTerms: [{ matchExpressions }] } };
    };
    const more = { nodeAffinity: nodeAffinity('true'), capacity: { storage: '2Gi' } };
    const grown = await hearth.merge(path('ours'), { spec: more });
    assert.match(JSON.stringify(grown.causes), /changes no spec/, 'an affinity alone');
    const placed = await hearth.merge(path('ours'), { spec: { nodeAffinity: nodeAffinity('true') } });
    assert.equal(placed.code, 200, JSON.stringify(placed.causes));
    assert.equal((await hearth.merge(path('ours'), { spec: { nodeAffinity: nodeAffinity('no') } })).code, 422, 'once');
    const sized = (storage: string) => hearth.merge(path('scratch'), { spec: { capacity: { storage } } });
    const volumeAttributes = { cluster: 'main', volume: 'scratch' };
    await installed.create(volume('scratch', { csi: { ...csi, volumeAttributes } }));
    const larger = await sized('2Gi');
    assert.equal(larger.code, 200, JSON.stringify(larger.causes));
    assert.match(JSON.stringify((await sized('1Gi')).causes), /changes no spec/, 'it shrinks');
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

  it("holds the operator's writes on claims to the size of those of the driver", async () => {
    const claim = (name: string, driver: string): Manifest => ({
      apiVersion: 'v1',
      kind: 'PersistentVolumeClaim',
      metadata: { name, namespace: 'default', annotations: { 'volume.kubernetes.io/storage-provisioner': driver } },
      spec: { accessModes: ['ReadWriteMany'], resources: { requests: { storage: '1Gi' } } },
    });
    const path = (name: string) => `/api/v1/namespaces/default/persistentvolumeclaims/${name}`;
    await installed.create(claim('ours', 'csi.hearth.storage'));
    await installed.create(claim('theirs', 'csi.example.org'));
    await policyActive('hearth-claim-updates', `${path('theirs')}/status`);
    const hearth = new Admission(installed.server.kubeconfig, operatorUser);
    const write = (name: string, status: object) => hearth.merge(`${path(name)}/status`, { status });
    const sized = (name: string, storage: string) => write(name, { capacity: { storage } });
    const grown = await sized('ours', '2Gi');
    assert.equal(grown.code, 200, JSON.stringify(grown.causes));
    assert.match(JSON.stringify((await sized('ours', '1Gi')).causes), /a size that grew/);
    assert.match(JSON.stringify((await write('ours', { phase: 'Lost' })).causes), /no status of claims/);
    assert.match(JSON.stringify((await sized('theirs', '2Gi')).causes), /only claims of csi\.hearth\.storage/);
    const labelled = await hearth.merge(`${path('ours')}/status`, { metadata: { labels: { a: 'b' } } });
    assert.match(JSON.stringify(labelled.causes), /no metadata of claims/);
  });

  it("holds the operator's DaemonSets and StatefulSets to those of StorageClusters and their programs", async () => {
    const hearth = new Admission(installed.server.kubeconfig, operatorUser);
    const sets = desired({
      cluster: sampleCluster(),
      environment: readEnvironment(await operatorVariables(installed.chart)),
      store: 'etcd://x',
      members: [],
      startHash: 'h',
    }).flatMap(({ object }) => (object.kind?.endsWith('Set') ? [object as unknown as Manifest] : []));
    assert.equal(sets.length, 3);
    const driver = `/apis/apps/v1/namespaces/${releaseNamespace}/daemonsets/hearth-csi-node`;
    await policyActive('hearth-owned-sets', driver);
    assert.equal((await hearth.ask('DELETE', driver)).code, 422, 'it is of the chart');
    const make = (set: Manifest) => hearth.create(collectionPath(set), set, { dryRun: true });
    for (const set of sets) {
      const made = await make(set);
      assert.equal(made.code, 201, JSON.stringify(made.causes));
      const changed = async (what: string, change: (copy: Manifest) => unknown): Promise<void> => {
        const copy = structuredClone(set);
        change(copy);
        assert.equal((await make(copy)).code, 422, what);
      };
      const pod = (copy: Manifest) => copy.spec.template.spec;
      await changed('no owner', (copy) => Object.assign(copy.metadata, { ownerReferences: [] }));
      await changed('another program', (copy) =>
        Object.assign(pod(copy).containers[0], { command: ['sh', '-c', 'id'] }),
      );
      await changed('its entrypoint', (copy) => delete pod(copy).containers[0].command);
      await changed('another container', (copy) => pod(copy).containers.push({ name: 'b', image: 'b:1' }));
      await changed('a first container', (copy) =>
        Object.assign(pod(copy), { initContainers: [{ name: 'b', image: 'b:1' }] }),
      );
      await changed('another account', (copy) => Object.assign(pod(copy), { serviceAccountName: 'hearth-operator' }));
      await changed('processes of the node', (copy) => Object.assign(pod(copy), { hostPID: true }));
    }
  });

  it('holds the operator to the authority of its webhook', async () => {
    const hearth = new Admission(installed.server.kubeconfig, operatorUser);
    const path = '/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/hearth-webhook';
    await policyActive('hearth-webhook-updates', path);
    const { webhooks } = (await admin.ask('GET', path)).body;
    const write = (change: object) => hearth.merge(path, { webhooks: [{ ...webhooks[0], ...change }] });
    const { clientConfig, rules } = webhooks[0];
    const caBundle = Buffer.from('-----BEGIN CERTIFICATE-----').toString('base64');
    for (const change of [
      { rules: [{ ...rules[0], resources: ['secrets'] }] },
      { failurePolicy: 'Fail' },
      { namespaceSelector: {} },
      { matchConditions: [] },
      { clientConfig: { ...clientConfig, service: { ...clientConfig.service, name: 'other' } } },
    ]) {
      const { code, causes } = await write(change);
      assert.equal(code, 422, JSON.stringify([change, causes]));
    }
    const more = await hearth.merge(path, { webhooks: [...webhooks, { ...webhooks[0], name: 'more.hearth.storage' }] });
    assert.equal(more.code, 422, 'another webhook');
    // The API server itself judges the text.
    const named = JSON.stringify((await write({ clientConfig: { ...clientConfig, caBundle } })).causes);
    assert.ok(!named.includes('hearth-webhook-updates'), named);
  });
});

async function operatorVariables(chart: Chart): Promise<Record<string, string>> {
  const deployment = (await chart.template()).find(({ kind }) => kind === 'Deployment');
  const { env } = deployment?.spec.template.spec.containers[0] ?? {};
  const given = env.map(({ name, value }: { name: string; value?: string }) => [name, value ?? releaseNamespace]);
  return Object.fromEntries(given);
}
