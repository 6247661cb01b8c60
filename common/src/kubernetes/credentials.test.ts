import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { KubeConfig } from '@kubernetes/client-node';
import { HearthError } from '../error.ts';
import { TestClock } from '../testing/test_clock.ts';
import { defaultCredentials, KubeConfigCredentials, ServiceAccountCredentials } from './credentials.ts';

describe('Credentials', () => {
  let folder = '';
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'hearth-credentials-'));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));
  const unauthenticated = (words: RegExp) => (thrown: unknown) =>
    thrown instanceof HearthError && thrown.code === 'Unauthenticated' && words.test(thrown.message);
  const load = (settings: object, user: object): KubeConfigCredentials => {
    const config = new KubeConfig();
    const cluster = { name: 'c', server: 'https://api.example:6443/prefix', ...settings };
    config.loadFromClusterAndUser(cluster as never, { name: 'u', ...user } as never);
    return new KubeConfigCredentials(async () => config);
  };

  it('of a pod are read again once a minute, and at once after a refusal', async () => {
    const clock = new TestClock();
    const environment = { KUBERNETES_SERVICE_HOST: '10.96.0.1', KUBERNETES_SERVICE_PORT: '443' };
    const credentials = new ServiceAccountCredentials(environment, folder, clock);
    await assert.rejects(credentials.connection(), unauthenticated(/(token|ca.crt) cannot be read \(ENOENT\)/));
    writeFileSync(join(folder, 'ca.crt'), 'authorities');
    writeFileSync(join(folder, 'token'), 'first\n');
    const token = async () => (await credentials.connection()).headers.authorization;
    assert.equal(await token(), 'Bearer first');
    writeFileSync(join(folder, 'token'), 'second');
    await clock.advance(59_000);
    assert.equal(await token(), 'Bearer first');
    await clock.advance(1_001);
    assert.equal(await token(), 'Bearer second');
    writeFileSync(join(folder, 'token'), 'third');
    credentials.refused();
    assert.equal(await token(), 'Bearer third');
    const { server, tls } = await credentials.connection();
    assert.equal(server.href, 'https://10.96.0.1/');
    assert.deepEqual(tls, { ca: 'authorities' });
  });

  it('of a pod support IPv6 addresses', async () => {
    const credentials = new ServiceAccountCredentials(
      { KUBERNETES_SERVICE_HOST: 'fd00::1', KUBERNETES_SERVICE_PORT: '6443' },
      folder,
    );
    writeFileSync(join(folder, 'ca.crt'), '');
    writeFileSync(join(folder, 'token'), 't');
    assert.equal((await credentials.connection()).server.href, 'https://[fd00::1]:6443/');
  });

  it('of a kubeconfig include certificates, tokens, passwords and server names', async () => {
    const base64 = (text: string) => Buffer.from(text).toString('base64');
    const certificate = load(
      { caData: base64('ca'), tlsServerName: 'other.example' },
      { certData: base64('cert'), keyData: base64('key') },
    );
    const { server, tls, headers } = await certificate.connection();
    assert.equal(server.href, 'https://api.example:6443/prefix');
    assert.deepEqual(
      { ...tls },
      { ca: Buffer.from('ca'), cert: Buffer.from('cert'), key: Buffer.from('key'), servername: 'other.example' },
    );
    assert.deepEqual(headers, {});
    const token = await load({ skipTLSVerify: true }, { token: 't' }).connection();
    assert.equal(token.headers.authorization, 'Bearer t');
    assert.equal(token.tls.rejectUnauthorized, false);
    const basic = await load({}, { username: 'u', password: 'p' }).connection();
    assert.equal(basic.headers.authorization, `Basic ${base64('u:p')}`);
  });

  it('of a kubeconfig without a cluster report that', async () => {
    const none = new KubeConfigCredentials(async () => new KubeConfig());
    await assert.rejects(none.connection(), unauthenticated(/kubeconfig cannot be used/));
    const plain = load({ server: 'http://api.example' }, { token: 't' });
    await assert.rejects(plain.connection(), unauthenticated(/HTTP protocol is not allowed/), 'no token in the clear');
  });

  it('are those of the pod unless KUBECONFIG is set', () => {
    const pod = { KUBERNETES_SERVICE_HOST: '10.96.0.1' };
    assert.ok(defaultCredentials(pod) instanceof ServiceAccountCredentials);
    assert.ok(defaultCredentials({ ...pod, KUBECONFIG: '/k' }) instanceof KubeConfigCredentials);
    assert.ok(defaultCredentials({}) instanceof KubeConfigCredentials);
  });
});
