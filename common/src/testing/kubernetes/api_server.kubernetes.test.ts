import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { needsPrograms } from '../needs.ts';
import { TestApiServer } from './api_server.ts';

describe('test API server', () => {
  let server: TestApiServer;

  before(async function () {
    server = await needsPrograms(this, () => TestApiServer.start());
  });
  after(() => server?.stop());

  const kubectl = async (...args: string[]): Promise<string> => {
    const outcome = await server.kubectl(args);
    assert.equal(outcome.code, 0, outcome.stderr);
    return outcome.stdout.trim();
  };

  it('has the version in go.mod', async () => {
    const version = JSON.parse(await kubectl('version', '-o', 'json'));
    assert.equal(version.serverVersion.gitVersion, 'v1.36.3');
    assert.equal(version.clientVersion.gitVersion, 'v1.36.3');
  });

  it('keeps its address and objects across a restart', async () => {
    await kubectl('create', 'configmap', 'kept', '--from-literal=a=b');
    const { url } = server;
    await server.down();
    assert.notEqual((await server.kubectl(['get', '--raw', '/readyz'])).code, 0);
    await server.up();
    assert.equal(server.url, url);
    assert.equal(await kubectl('get', 'configmap', 'kept', '-o', 'jsonpath={.data.a}'), 'b');
  });

  it('answers 410 for a list that was compacted', async () => {
    const first = JSON.parse(await kubectl('get', '--raw', '/api/v1/namespaces/default/configmaps?limit=1'));
    await kubectl('create', 'configmap', 'later');
    await server.compact();
    await server.restart();
    const watch = `/api/v1/namespaces/default/configmaps?watch=1&timeoutSeconds=5&resourceVersion=${first.metadata.resourceVersion}`;
    const outcome = await server.kubectl(['get', '--raw', watch]);
    assert.match(outcome.stdout + outcome.stderr, /too old resource version/);
  });

  it('grants users the rights in RBAC', async () => {
    const kubeconfig = await server.userKubeconfig('system:serviceaccount:default:reader', ['readers']);
    const may = () => server.kubectl(['--kubeconfig', kubeconfig, 'auth', 'can-i', 'list', 'configmaps']);
    assert.match((await may()).stdout, /^no/);
    await kubectl('create', 'role', 'reader', '--verb=list', '--resource=configmaps');
    await kubectl('create', 'rolebinding', 'reader', '--role=reader', '--group=readers');
    assert.match((await may()).stdout, /^yes/);
  });

  it('leaves no folder behind', async () => {
    const { folder } = server;
    assert.ok(existsSync(folder));
    await server.stop();
    assert.ok(!existsSync(folder));
  });
});
