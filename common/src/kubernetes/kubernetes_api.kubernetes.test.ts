import assert from 'node:assert/strict';
import { type ErrorCode, HearthError } from '../index.ts';
import { apiOf, startApiServer, type TestApiServer } from '../testing/kubernetes/index.ts';
import { apiFailure } from './api_failure.ts';
import { type ConfigMap, type KubernetesApi, kinds, resourceType } from './index.ts';

describe('Kubernetes client against a real API server', () => {
  let server: TestApiServer;
  let api: KubernetesApi;
  before(async function () {
    server = await startApiServer(this);
    api = apiOf(server.kubeconfig);
  });
  after(async () => {
    api?.close();
    await server?.stop();
  });
  const configMap = (name: string, data: Record<string, string> = {}): ConfigMap => ({
    metadata: { name, namespace: 'default' },
    data,
  });
  const refused = async (code: ErrorCode, words: RegExp, work: Promise<unknown>): Promise<HearthError> => {
    const error = await work.then(
      () => assert.fail(`no ${code}`),
      (reason: unknown) => reason,
    );
    assert.ok(error instanceof HearthError, String(error));
    assert.equal(error.code, code, error.message);
    assert.match(error.message, words);
    return error;
  };

  it('creates, reads, replaces, patches and deletes', async () => {
    assert.equal(await api.get(kinds.ConfigMap, 'a', 'default'), undefined);
    const made = await api.create(kinds.ConfigMap, configMap('a', { one: '1' }));
    assert.equal(made.kind, 'ConfigMap');
    assert.ok(made.metadata?.uid);
    const replaced = await api.replace(kinds.ConfigMap, { ...made, data: { two: '2' } });
    assert.deepEqual(replaced.data, { two: '2' });
    const merged = await api.patch(
      kinds.ConfigMap,
      'a',
      'default',
      { data: { two: null, three: '3' } },
      { kind: 'merge' },
    );
    assert.deepEqual(merged.data, { three: '3' });
    const add = [{ op: 'add', path: '/data/four', value: '4' }];
    assert.deepEqual((await api.patch(kinds.ConfigMap, 'a', 'default', add, { kind: 'json' })).data, {
      three: '3',
      four: '4',
    });
    const { items } = await api.list(kinds.ConfigMap, { namespace: 'default', fieldSelector: 'metadata.name=a' });
    assert.equal(items.length, 1);
    assert.equal(items[0]?.kind, 'ConfigMap');
    assert.equal(await api.delete(kinds.ConfigMap, 'a', 'default'), true);
    assert.equal(await api.delete(kinds.ConfigMap, 'a', 'default'), false);
    assert.equal(await api.get(kinds.ConfigMap, 'a', 'no-such-namespace'), undefined);
  });

  it('reports refusals by message and code', async () => {
    const made = await api.create(kinds.ConfigMap, configMap('refused'));
    await refused(
      'AlreadyExists',
      /configmaps "refused" already exists/,
      api.create(kinds.ConfigMap, configMap('refused')),
    );
    await api.replace(kinds.ConfigMap, { ...made, data: { newer: 'yes' } });
    await refused('Conflict', /the object has been modified/, api.replace(kinds.ConfigMap, { ...made, data: {} }));
    const preconditions = { uid: '00000000-0000-0000-0000-000000000000' };
    await refused(
      'Conflict',
      /the UID in the precondition/,
      api.delete(kinds.ConfigMap, 'refused', 'default', { preconditions }),
    );
    await refused('NotFound', /not found/, api.patch(kinds.ConfigMap, 'none', 'default', {}, { kind: 'merge' }));
    const invalid = await refused(
      'InvalidArgument',
      /metadata.name/,
      api.create(kinds.ConfigMap, configMap('Not_A_Name')),
    );
    assert.equal(apiFailure(invalid)?.causes[0]?.field, 'metadata.name');
    const test = [{ op: 'test', path: '/data/newer', value: 'no' }];
    await refused(
      'InvalidArgument',
      /patch ConfigMap default\/refused/,
      api.patch(kinds.ConfigMap, 'refused', 'default', test, { kind: 'json' }),
    );
    const unknown = resourceType('hearth.example', 'v1', 'things', 'Thing', 'Cluster');
    await refused('NotFound', /get Thing a/, api.get(unknown, 'a'));
    await refused('NotFound', /list Thing/, api.list(unknown));
  });

  it('reports missing rights', async () => {
    const user = apiOf(await server.userKubeconfig('system:serviceaccount:default:nobody'));
    const words = /cannot get resource "secrets" in API group "" in the namespace "default"/;
    await refused('PermissionDenied', words, user.get(kinds.Secret, 'a', 'default'));
    user.close();
  });

  it('applies fields on the server, reports their owners, and takes them by force', async () => {
    const desired = (value: string) => ({ metadata: { name: 'applied', namespace: 'default' }, data: { ours: value } });
    await api.apply(kinds.ConfigMap, desired('1'));
    await server.kubectl([
      'patch',
      'configmap',
      'applied',
      '-n',
      'default',
      '--type=merge',
      '-p',
      '{"data":{"theirs":"x"}}',
    ]);
    const other = { metadata: { name: 'applied', namespace: 'default' }, data: { ours: 'stolen' } };
    const polite = { fieldManager: 'somebody', force: false };
    const conflict = await refused('Conflict', /hearth-operator/, api.apply(kinds.ConfigMap, other, polite));
    assert.equal(apiFailure(conflict)?.causes[0]?.field, '.data.ours');
    const forced = await api.apply(kinds.ConfigMap, other, { fieldManager: 'somebody' });
    assert.deepEqual(forced.data, { ours: 'stolen', theirs: 'x' });
    const again = await api.apply(kinds.ConfigMap, desired('2'));
    assert.deepEqual(again.data, { ours: '2', theirs: 'x' }, 'what others own stays');
    const same = await api.apply(kinds.ConfigMap, desired('2'));
    assert.equal(same.metadata?.resourceVersion, again.metadata?.resourceVersion, 'the same again writes nothing');
    const stale = { ...desired('3'), metadata: { ...desired('3').metadata, resourceVersion: '1' } };
    await refused('Conflict', /modified/, api.apply(kinds.ConfigMap, stale));
  });

  it('writes only the status through its subresource', async () => {
    const claim = {
      metadata: { name: 'claim', namespace: 'default' },
      spec: { accessModes: ['ReadOnlyMany'], resources: { requests: { storage: '1Gi' } } },
    };
    await api.create(kinds.PersistentVolumeClaim, claim);
    const { spec } = { spec: { ...claim.spec, volumeName: 'elsewhere' } };
    const written = await api.apply(
      kinds.PersistentVolumeClaim,
      { metadata: claim.metadata, spec, status: { phase: 'Bound' } },
      { subresource: 'status' },
    );
    assert.equal(written.status?.phase, 'Bound');
    assert.equal(written.spec?.volumeName, undefined);
  });

  it('reads a list in pages of one revision', async () => {
    for (let index = 0; index < 25; ++index) {
      await api.create(kinds.ConfigMap, {
        metadata: { name: `page-${index}`, namespace: 'default', labels: { paged: 'yes' } },
      });
    }
    const selection = { namespace: 'default', labelSelector: 'paged=yes', limit: 10 };
    const first = await api.list(kinds.ConfigMap, selection);
    await api.delete(kinds.ConfigMap, 'page-9', 'default');
    const names = first.items.map(({ metadata }) => metadata?.name);
    let page = first;
    while (page.continue !== undefined) {
      page = await api.list(kinds.ConfigMap, { ...selection, continue: page.continue });
      assert.equal(page.resourceVersion, first.resourceVersion);
      names.push(...page.items.map(({ metadata }) => metadata?.name));
    }
    assert.equal(new Set(names).size, 25);
  });

  it('fails while the server is down, and recovers with it', async () => {
    await server.down();
    await refused('Unavailable', /cannot be reached/, api.get(kinds.ConfigMap, 'a', 'default'));
    await server.up();
    assert.equal(await api.get(kinds.ConfigMap, 'a', 'default'), undefined);
  });
});
