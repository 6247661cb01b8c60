import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type ChannelCredentials, credentials, Metadata, type ServiceError } from '@grpc/grpc-js';
import { silentLogger } from '@hearth/common';
import { ControlClient, type GetStatusResponse } from '@hearth/common/generated/hearth/v1/control.ts';
import { Authority, type KeyPair, TestClock, until } from '@hearth/common/testing';
import { TestCluster } from '../testing/cluster.ts';
import { TlsFiles } from '../tls/index.ts';
import { SecretFolder } from '../tls/testing/secret_folder.ts';
import { ControlApi } from './server.ts';

const serverName = 'agent.test.hearth';
const contentsOf = (issued: KeyPair) => ({
  'tls.crt': readFileSync(issued.certificate),
  'tls.key': readFileSync(issued.key),
  'ca.crt': readFileSync(issued.authorities),
});

describe('control API over TCP', () => {
  let cluster: TestCluster;
  let authority: Authority;
  let other: Authority;
  let secret: SecretFolder;
  let files: TlsFiles;
  let clock: TestClock;
  let api: ControlApi;
  const clients: ControlClient[] = [];
  before(() => {
    authority = Authority.create({ name: 'ours' });
    other = Authority.create({ name: 'theirs' });
  });
  after(() => {
    authority.remove();
    other.remove();
  });
  beforeEach(async () => {
    cluster = await TestCluster.start(['a'], []);
    clock = new TestClock();
    secret = new SecretFolder(join(cluster.folder, 'tls'), contentsOf(authority.issue({ names: [serverName] })));
    const named = (name: string) => ({ setting: `control.${name}`, path: join(secret.path, name) });
    const identity = { certificate: named('tls.crt'), key: named('tls.key') };
    files = TlsFiles.open({ authorities: named('ca.crt'), identity }, silentLogger, { clock });
    const tcp = { listen: { host: '127.0.0.1', port: 0 }, files };
    const socket = join(cluster.folder, 'agent.sock');
    api = new ControlApi(cluster.agent('a'), {
      socket,
      cluster: 'test',
      secret: Buffer.alloc(16),
      prepare: (source) => source,
      tcp,
    });
    await api.listen();
  });
  afterEach(async () => {
    for (const client of clients.splice(0)) client.close();
    await api.close(2_000);
    files.close();
    await cluster.close();
  });

  function connect(how: ChannelCredentials): () => Promise<GetStatusResponse> {
    const client = new ControlClient(api.tcpAddress ?? '', how, {
      'grpc.ssl_target_name_override': serverName,
      'grpc.use_local_subchannel_pool': 1,
    });
    clients.push(client);
    return () =>
      new Promise((resolve, reject) =>
        client.getStatus(
          {},
          new Metadata(),
          { deadline: Date.now() + 300_000 },
          (error: ServiceError | null, status) => (error ? reject(error) : resolve(status)),
        ),
      );
  }
  const secure = (client: KeyPair | undefined, trusted = authority) =>
    credentials.createSsl(
      readFileSync(trusted.certificate),
      client === undefined ? null : readFileSync(client.key),
      client === undefined ? null : readFileSync(client.certificate),
    );

  it('serves clients with a certificate of its CA', async () => {
    const ask = connect(secure(authority.issue({ names: ['operator.test.hearth'] })));
    assert.equal((await ask()).node, 'a');
  });

  const refused: [name: string, client: () => ChannelCredentials][] = [
    ['without a certificate', () => secure(undefined)],
    ['with a certificate of another authority', () => secure(other.issue({ names: ['operator.test.hearth'] }))],
    ['with an expired certificate', () => secure(authority.issue({ names: ['operator.test.hearth'], expired: true }))],
    ['without TLS', () => credentials.createInsecure()],
  ];
  for (const [name, client] of refused) {
    it(`refuses clients ${name}`, async () => {
      await assert.rejects(connect(client())(), { code: 14 });
    });
  }

  it('refuses certificates of its CA that were made for another purpose', async () => {
    for (const names of [['etcd.test.hearth'], ['agent.other.hearth']]) {
      const ask = connect(secure(authority.issue({ names })));
      await assert.rejects(ask(), (error: ServiceError) => {
        assert.equal(error.code, 7);
        assert.match(error.details, /the control API accepts agent\.test\.hearth or operator\.test\.hearth/);
        return true;
      });
    }
  });

  it('mounts nothing for callers outside the node', async () => {
    const client = new ControlClient(
      api.tcpAddress ?? '',
      secure(authority.issue({ names: ['operator.test.hearth'] })),
      {
        'grpc.ssl_target_name_override': serverName,
      },
    );
    clients.push(client);
    const mounting = new Promise((resolve, reject) =>
      client.mount({ dataset: 'd', target: '/etc', dataPath: '' }, (error, record) =>
        error ? reject(error) : resolve(record),
      ),
    );
    await assert.rejects(mounting, { code: 7, details: /Unix socket only/ });
  });

  it('gives client tokens to no caller outside the node', async () => {
    const how = secure(authority.issue({ names: ['operator.test.hearth'] }));
    const client = new ControlClient(api.tcpAddress ?? '', how, { 'grpc.ssl_target_name_override': serverName });
    clients.push(client);
    const request = { datasets: ['d'], rights: [], lifeMs: 60_000n, node: '', podNamespace: '', podUid: '' };
    const asking = new Promise((resolve, reject) =>
      client.createToken(request, (error, token) => (error ? reject(error) : resolve(token))),
    );
    await assert.rejects(asking, { code: 7, details: /Unix socket only/ });
  });

  it('reloads certificates and CAs while listening, as a mounted Secret changes', async () => {
    const before = connect(secure(authority.issue({ names: ['operator.test.hearth'] })));
    await before();
    const old = files.contents.identity?.certificate;
    secret.write(contentsOf(other.issue({ names: [serverName] })));
    await clock.advance(5_000);
    await until(() => files.contents.identity?.certificate !== old);
    const after = connect(secure(other.issue({ names: ['operator.test.hearth'] }), other));
    assert.equal((await after()).node, 'a');
    assert.equal((await before()).node, 'a', 'connections that were there go on');
    await assert.rejects(connect(secure(authority.issue({ names: ['operator.test.hearth'] })))(), { code: 14 });
  });

  it('keeps the old files while the new ones do not match or are missing', async () => {
    const ask = (): Promise<GetStatusResponse> => connect(secure(authority.issue({ names: ['client.test.hearth'] })))();
    const good = contentsOf(authority.issue({ names: [serverName] }));
    secret.write({ ...good, 'tls.key': contentsOf(authority.issue({ names: [serverName] }))['tls.key'] });
    await files.reread();
    await ask();
    secret.write({ ...good, 'ca.crt': 'no certificate' });
    await files.reread();
    await ask();
    secret.write({ 'ca.crt': good['ca.crt'] });
    await files.reread();
    await ask();
    secret.write(good);
    await files.reread();
    assert.deepEqual(files.contents.identity?.certificate, good['tls.crt']);
    await ask();
  });

  it('names the unusable file', async () => {
    const named = (name: string) => ({ setting: `control.${name}`, path: join(cluster.folder, name) });
    const identity = { certificate: named('none'), key: named('none') };
    assert.throws(() => TlsFiles.open({ authorities: undefined, identity }, silentLogger), {
      code: 'InvalidArgument',
      message: /control\.none .*\/none cannot be read \(ENOENT/,
    });
    await writeFile(join(cluster.folder, 'bad'), 'bad');
    assert.throws(() => TlsFiles.open({ authorities: named('bad'), identity: undefined }, silentLogger), {
      code: 'InvalidArgument',
      message: /control\.bad .*\/bad cannot be used/,
    });
  });
});
