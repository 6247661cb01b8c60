import assert from 'node:assert/strict';
import { type ErrorCode, HearthError } from '../error.ts';
import { apiFailure, isExpired } from './api_failure.ts';
import { kinds } from './kinds.ts';
import type { KubernetesApi } from './kubernetes_api.ts';
import { type Answer, configMap, json, listOf, refusal, ScriptedServer } from './testing/scripted_server.ts';

describe('KubernetesApi', () => {
  let server: ScriptedServer;
  let api: KubernetesApi;
  const start = async (...answers: Answer[]) => {
    server = await ScriptedServer.start(...answers);
    api = server.api({ deadlineMs: 300_000 });
  };
  afterEach(async () => {
    api.close();
    await server.stop();
  });
  const thrown = async (work: Promise<unknown>): Promise<HearthError> => {
    const error = await work.then(
      () => assert.fail('nothing was thrown'),
      (reason: unknown) => reason,
    );
    assert.ok(error instanceof HearthError, String(error));
    return error;
  };

  it("learns the server's time from responses, including refusals", async () => {
    const minutes = (ahead: number) => new Date(Date.now() + ahead * 60_000);
    const dated = (ahead: number) => ({ date: minutes(ahead).toUTCString() });
    const refused = refusal(403, 'Forbidden');
    await start(json(configMap('a', 1), 200, dated(10)), json(refused, 403, dated(-10)));
    const apart = (ahead: number) => Math.abs(api.date().getTime() - minutes(ahead).getTime());
    assert.ok(apart(0) < 1_000, 'nobody has answered yet');
    await api.get(kinds.ConfigMap, 'a', 'default');
    // Far below the minutes that the clocks would be apart if the Date header were ignored.
    assert.ok(apart(10) < 60_000, `${apart(10)} ms`);
    await thrown(api.get(kinds.ConfigMap, 'a', 'default'));
    assert.ok(apart(-10) < 60_000, `${apart(-10)} ms`);
  });

  it("sends paths, queries and bodies in the API's form", async () => {
    await start(json(configMap('a', 1)));
    await api.get(kinds.ConfigMap, 'a', 'default');
    await api.get(kinds.Node, 'node-1');
    await api.list(kinds.DaemonSet, { namespace: 'ns', labelSelector: 'a=b,c', limit: 500, continue: 'x/y=' });
    await api.list(kinds.StorageCluster);
    await api.create(kinds.ConfigMap, { metadata: { name: 'a', namespace: 'ns' } });
    await api.replace(kinds.PersistentVolume, { metadata: { name: 'pv' } }, 'status');
    await api.apply(kinds.DaemonSet, { metadata: { name: 'd', namespace: 'ns' } });
    await api.apply(
      kinds.Node,
      { metadata: { name: 'n' } },
      { fieldManager: 'other', force: false, subresource: 'status' },
    );
    await api.patch(kinds.Pod, 'p', 'ns', [{ op: 'remove', path: '/spec' }], { kind: 'json' });
    await api.patch(kinds.Pod, 'p', 'ns', { metadata: {} }, { kind: 'merge', subresource: 'status' });
    await api.delete(kinds.Pod, 'p', 'ns', { preconditions: { uid: 'u' }, propagation: 'Foreground' });
    assert.deepEqual(
      server.requests.map(({ method, url }) => `${method} ${url.pathname}${url.search}`),
      [
        'GET /api/v1/namespaces/default/configmaps/a',
        'GET /api/v1/nodes/node-1',
        'GET /apis/apps/v1/namespaces/ns/daemonsets?labelSelector=a%3Db%2Cc&limit=500&continue=x%2Fy%3D',
        'GET /apis/hearth.storage/v1alpha1/storageclusters',
        'POST /api/v1/namespaces/ns/configmaps?fieldManager=hearth-operator',
        'PUT /api/v1/persistentvolumes/pv/status?fieldManager=hearth-operator',
        'PATCH /apis/apps/v1/namespaces/ns/daemonsets/d?fieldManager=hearth-operator&force=true',
        'PATCH /api/v1/nodes/n/status?fieldManager=other&force=false',
        'PATCH /api/v1/namespaces/ns/pods/p?fieldManager=hearth-operator',
        'PATCH /api/v1/namespaces/ns/pods/p/status?fieldManager=hearth-operator',
        'DELETE /api/v1/namespaces/ns/pods/p',
      ],
    );
    const applied = server.requests[6];
    assert.equal(applied?.headers['content-type'], 'application/apply-patch+yaml');
    assert.equal(applied?.headers.authorization, 'Bearer of-a-test');
    assert.deepEqual(JSON.parse(applied?.body ?? ''), {
      apiVersion: 'apps/v1',
      kind: 'DaemonSet',
      metadata: { name: 'd', namespace: 'ns' },
    });
    assert.equal(server.requests[8]?.headers['content-type'], 'application/json-patch+json');
    assert.equal(server.requests[9]?.headers['content-type'], 'application/merge-patch+json');
    const { propagationPolicy, preconditions } = JSON.parse(server.requests[10]?.body ?? '');
    assert.deepEqual(
      { propagationPolicy, preconditions },
      { propagationPolicy: 'Foreground', preconditions: { uid: 'u' } },
    );
  });

  it('does not change its arguments, and refuses a namespaced object without a namespace', async () => {
    await start(json(configMap('a', 1)));
    const given = Object.freeze({ metadata: Object.freeze({ name: 'a', namespace: 'ns' }) });
    await api.create(kinds.ConfigMap, given);
    for (const work of [
      () => api.get(kinds.Pod, 'a'),
      () => api.create(kinds.Pod, { metadata: { name: 'a' } }),
      () => api.apply(kinds.Pod, { metadata: { name: 'a' } }),
      () => api.get(kinds.Node, ''),
    ]) {
      assert.equal((await thrown(work())).code, 'InvalidArgument');
    }
    assert.equal(server.requests.length, 1);
  });

  it('adds kind and version to the items of lists', async () => {
    const { kind: _, apiVersion: __, ...bare } = configMap('a', 1) as Record<string, unknown>;
    await start(json(listOf([bare], 7, 'more')));
    const page = await api.list(kinds.ConfigMap, { namespace: 'default' });
    assert.equal(page.items[0]?.kind, 'ConfigMap');
    assert.equal(page.items[0]?.apiVersion, 'v1');
    assert.equal(page.resourceVersion, '7');
    assert.equal(page.continue, 'more');
  });

  it("maps refusals to codes, with the server's message", async () => {
    const cases: [number, string, ErrorCode][] = [
      [400, 'BadRequest', 'InvalidArgument'],
      [401, 'Unauthorized', 'Unauthenticated'],
      [403, 'Forbidden', 'PermissionDenied'],
      [404, 'NotFound', 'NotFound'],
      [405, 'MethodNotAllowed', 'Unsupported'],
      [409, 'AlreadyExists', 'AlreadyExists'],
      [409, 'Conflict', 'Conflict'],
      [410, 'Expired', 'Unavailable'],
      [422, 'Invalid', 'InvalidArgument'],
      [429, 'TooManyRequests', 'Unavailable'],
      [500, 'InternalError', 'Unavailable'],
      [504, 'Timeout', 'DeadlineExceeded'],
    ];
    const answers = cases.map(([status, reason]) => json(refusal(status, reason, `words of ${reason}`), status));
    await start(...answers, json({}));
    for (const [status, reason, code] of cases) {
      const error = await thrown(api.apply(kinds.Node, { metadata: { name: 'n' } }));
      assert.equal(error.code, code, reason);
      assert.match(error.message, new RegExp(`apply Node n: words of ${reason}`));
      assert.equal(apiFailure(error)?.status, status);
      assert.equal(isExpired(error), status === 410);
    }
    assert.equal(server.refusals, 1, 'credentials are read anew after 401');
  });

  it('distinguishes a missing object from a missing kind', async () => {
    const missing = refusal(404, 'NotFound', 'nodes "n" not found', { name: 'n', kind: 'nodes' });
    await start(json(missing, 404), json(missing, 404), (_request, response) => {
      response.writeHead(404, { 'content-type': 'text/plain' });
      response.end('404 page not found\n');
    });
    assert.equal(await api.get(kinds.Node, 'n'), undefined);
    assert.equal(await api.delete(kinds.Node, 'n'), false);
    const error = await thrown(api.get(kinds.Node, 'n'));
    assert.equal(error.code, 'NotFound');
    assert.match(error.message, /404 page not found/);
  });

  it('waits as an overloaded server asks, within the deadline', async () => {
    const busy = json(refusal(429, 'TooManyRequests'), 429, { 'retry-after': '0' });
    const late = json(refusal(429, 'TooManyRequests'), 429, { 'retry-after': '600' });
    await start(busy, busy, json(configMap('a', 1)), late);
    assert.equal((await api.create(kinds.ConfigMap, { metadata: { name: 'a', namespace: 'ns' } })).metadata?.name, 'a');
    assert.equal(server.requests.length, 3);
    // Ten minutes exceed the deadline: a client that waited would fail with DeadlineExceeded.
    assert.equal((await thrown(api.get(kinds.Node, 'n'))).code, 'Unavailable');
    assert.equal(server.requests.length, 4);
  });

  it('bounds a whole response by the deadline, and ends when aborted', async () => {
    await start(
      () => undefined,
      (_request, response) => {
        response.writeHead(200, { 'content-length': '100' });
        response.write('{"metadata"');
      },
    );
    api = server.api({ deadlineMs: 100 });
    for (const part of ['headers', 'body']) {
      const error = await thrown(api.get(kinds.Node, 'n'));
      assert.equal(error.code, 'DeadlineExceeded', part);
      assert.match(error.message, /did not get Node n within 0.1 s/);
    }
    const abort = new AbortController();
    setTimeout(() => abort.abort(), 20);
    assert.equal((await thrown(api.list(kinds.Node, {}, abort.signal))).code, 'Cancelled');
    assert.equal((await thrown(api.list(kinds.Node, {}, AbortSignal.abort()))).code, 'Cancelled');
  });

  it('reports an unreachable server, without secrets', async () => {
    await start(json({}));
    await server.stop();
    const error = await thrown(api.get(kinds.Node, 'n'));
    assert.equal(error.code, 'Unavailable');
    assert.match(error.message, /cannot be reached to get Node n: .*ECONNREFUSED/);
    assert.doesNotMatch(`${error.message}${JSON.stringify(error)}`, /of-a-test/);
  });

  it('retries a read on a connection that the server closed while idle', async () => {
    let requests = 0;
    await start((_request, response) => {
      requests += 1;
      if (requests === 2) response.socket?.destroy();
      else json(configMap('a', 1))(_request, response);
    });
    await api.get(kinds.ConfigMap, 'a', 'default');
    assert.ok(await api.get(kinds.ConfigMap, 'a', 'default'));
    assert.equal(requests, 3);
  });

  it('renews leases while all other requests hang', async () => {
    await start((request, response) => {
      if (request.url.pathname.includes('leases')) json({ kind: 'Lease' })(request, response);
    });
    const abort = new AbortController();
    const hanging = Array.from({ length: 40 }, () => thrown(api.get(kinds.Node, 'n', undefined, abort.signal)));
    assert.ok(await api.get(kinds.Lease, 'l', 'ns'));
    assert.ok(server.requests.length <= 17, 'no more than 16 of the others at a time');
    abort.abort();
    for (const error of await Promise.all(hanging)) assert.equal(error.code, 'Cancelled');
  });

  it('refuses responses that are not JSON', async () => {
    await start((_request, response) => void response.end('<html>login</html>'));
    assert.equal((await thrown(api.get(kinds.Node, 'n'))).code, 'ProtocolError');
  });
});
