import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root, until } from '@hearth/common/testing';
import {
  Admission,
  type Answer,
  type Chart,
  chartFolder,
  cleanupUser,
  collectionPath,
  flags,
  type Manifest,
  operatorUser,
  releaseNamespace,
  someRegistry,
  type TestApiServer,
} from '@hearth/common/testing/kubernetes';
import { parseAllDocuments } from 'yaml';
import { type Right, rights } from './chart_rights.ts';
import { InstalledChart } from './installed_chart.ts';
import { oddValues } from './odd_values.ts';

const withoutRight = ([user, verb, path, namespace]: Right): Right => [user, verb, path, namespace, false];

describe('chart on an API server', () => {
  let installed: InstalledChart;
  let server: TestApiServer;
  let admin: Admission;
  let chart: Chart;

  before(async function () {
    installed = await InstalledChart.start(this);
    ({ server, admin, chart } = installed);
  });
  after(() => installed?.stop());

  it('is taken as it is, and with odd values, by the API server', async () => {
    for (const values of [{}, oddValues]) {
      for (const object of await chart.template(values)) {
        // Of the Prometheus operator, which is not here.
        if (object.apiVersion === 'monitoring.coreos.com/v1') continue;
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
    await installed.create({ kind: 'Namespace', apiVersion: 'v1', metadata: { name: 'restricted', labels } });
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
    await using _ = await installed.beginUninstall();
    assert.deepEqual(await wrongOf(rights), []);
  });

  it('gives no account the rights of the clean-up while it is not uninstalled', async () => {
    const none = rights.filter(([user]) => user === cleanupUser).map(withoutRight);
    assert.ok(none.length > 10);
    assert.deepEqual(await wrongOf(none), []);
    const accounts = await server.kubectl(['get', 'serviceaccounts', '-n', releaseNamespace, '-o', 'name']);
    assert.doesNotMatch(accounts.stdout, /cleanup/);
  });

  it('gives them while the hook runs, also when that comes to nothing', async () => {
    // No kubelet runs its pod here, so it is not done in time.
    const place = ['-n', releaseNamespace, '--timeout', '15s'];
    const uninstalling = chart.helm(['uninstall', 'hearth', ...place], server.kubeconfig);
    const [allowed] = rights.filter(([user, , , , may]) => user === cleanupUser && may);
    assert.ok(allowed);
    await until('the rights of the clean-up', async () => (await wrongOf([allowed])).length === 0);
    assert.notEqual((await uninstalling).code, 0);
    await until('they are gone', async () => (await wrongOf([withoutRight(allowed)])).length === 0);
    const left = await server.kubectl([
      'get',
      'clusterroles,clusterrolebindings,roles,rolebindings',
      '-A',
      '-o',
      'name',
    ]);
    assert.doesNotMatch(left.stdout, /hearth-cleanup/);
    // The Job stays for its log. helm removes no hook with its release, so the test deletes the Job.
    await server.kubectl(['delete', 'job', 'hearth-cleanup', '-n', releaseNamespace]);
    // As docs/install.md says for those who keep it, or force it.
    await installed.helm('rollback', 'hearth', '1', '-n', releaseNamespace);
    await installed.helm('upgrade', 'hearth', chartFolder, '-n', releaseNamespace, '--reuse-values');
  });

  /** Rights that the API server gives or refuses otherwise than expected. */
  async function wrongOf(expected: Right[]): Promise<string[]> {
    const wrong: string[] = [];
    for (const [user, verb, path, namespace, allowed] of expected) {
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
    return wrong;
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
    const written = await new Admission(server.kubeconfig, operatorUser).ask(
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
    await installed.helm(
      'upgrade',
      'hearth',
      chartFolder,
      '-n',
      releaseNamespace,
      ...flags({
        ...someRegistry,
        'storageClass.name': 'models',
        logLevel: 'debug',
        'webhook.excludedNamespaces': ['quiet'],
      }),
    );
    const [asked] = (await admin.ask('GET', webhook)).body.webhooks;
    assert.equal(asked.clientConfig.caBundle, caBundle, 'what the operator wrote stays');
    assert.ok(asked.namespaceSelector.matchExpressions[0].values.includes('quiet'));
    const after = await listed();
    assert.ok(after.includes('storageclass.storage.k8s.io/models'));
    assert.ok(!after.includes('storageclass.storage.k8s.io/hearth'));
    assert.match(
      await installed.helm('get', 'notes', 'hearth', '-n', releaseNamespace),
      /helm test hearth --namespace hearth-system/,
    );

    // The hook needs a kubelet that runs its pod.
    const kept = await installed.helm('uninstall', 'hearth', '-n', releaseNamespace, '--no-hooks');
    assert.match(kept, /kept due to the resource policy/);
    assert.deepEqual(await listed(), []);
    const crds = await server.kubectl(['get', 'crds', '-o', 'name']);
    assert.equal(crds.stdout.trim().split('\n').length, 4);
    await installed.helm('install', 'hearth', chartFolder, '-n', releaseNamespace, ...flags(someRegistry));
  });
});
