import assert from 'node:assert/strict';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { credentials as channel, type ServiceError } from '@grpc/grpc-js';
import { createLogger } from '@hearth/common';
import { ControlClient, type GetStatusResponse } from '@hearth/common/generated/hearth/v1/control.ts';
import { Authority, type KeyPair, until } from '@hearth/common/testing';
import { type ScriptedServer, sendFile, startServer } from '@hearth/common/testing/origins';
import { FakeEngine, revisionKey } from '../testing/fake_engine.ts';
import { FakeFabric } from '../testing/fake_fabric.ts';
import { socketClient as clientOf, startAgent, testConfig } from '../testing/running_agent.ts';
import type { RunningAgent } from './run_agent.ts';

const secret = 'hf_ThisTokenIsNobodysBusiness';
const keys = { accessKeyId: 'AKIDNOBODY', secretAccessKey: 'KeyOfNobodysBusiness', sessionToken: 'SessionOfNobody' };
const none = { token: '', accessKeyId: '', secretAccessKey: '', sessionToken: '' };

/** Complete agents with fake engines that call each other by mutual TLS. */
describe('agents with credentials of datasets', () => {
  let folder: string;
  let fabric: FakeFabric;
  let authority: Authority;
  let server: ScriptedServer;
  let files: KeyPair;
  let log = '';
  const stops: (() => Promise<void>)[] = [];
  const clients: ControlClient[] = [];
  const stream = new Writable({
    write(chunk, _encoding, done) {
      log += chunk;
      done();
    },
  });

  before(() => {
    authority = Authority.create();
    files = authority.issue({ names: ['agent.hearth.hearth'] });
  });
  after(() => authority.remove());
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'hearth-credentials-'));
    fabric = new FakeFabric();
    log = '';
    server = await startServer();
    server.handler = (request, response) => {
      if (request.headers.authorization === `Bearer ${secret}`)
        sendFile(request, response, Buffer.from('x'), { etag: '"1"' });
      else response.writeHead(403).end(`not with ${request.headers.authorization}`);
    };
  });
  afterEach(async () => {
    for (const client of clients.splice(0)) client.close();
    await Promise.all(stops.splice(0).map((stop) => stop()));
    await server.stop();
    await rm(folder, { recursive: true });
  });

  async function start(node: string): Promise<{ running: RunningAgent; stop: () => Promise<void> }> {
    const config = await testConfig(folder, node, {
      'control-listen': '127.0.0.1:0',
      'control-certificate': files.certificate,
      'control-key': files.key,
      'control-client-authorities': files.authorities,
      'origins-allow-private': 'true',
    });
    const { serving, stop } = startAgent(config, {
      engineFactory: async (options) => new FakeEngine(fabric, options),
      logger: createLogger({ level: 'debug', format: 'json', stream }),
      // The node's identity, which a dataset with credentials must not use.
      environment: { HF_TOKEN: 'of-the-node', AWS_ACCESS_KEY_ID: 'of-the-node', AWS_SECRET_ACCESS_KEY: 'of-the-node' },
    });
    stops.push(stop);
    return { running: await serving, stop };
  }

  async function tlsClient(running: RunningAgent, names: string[]): Promise<ControlClient> {
    const { certificate, key } = authority.issue({ names });
    const [root, own, mine] = await Promise.all([files.authorities, key, certificate].map((path) => readFile(path)));
    const client = new ControlClient(running.control ?? '', channel.createSsl(root, own, mine), {
      'grpc.ssl_target_name_override': 'agent.hearth.hearth',
    });
    clients.push(client);
    return client;
  }
  function socketClient(node: string): ControlClient {
    const client = clientOf(folder, node);
    clients.push(client);
    return client;
  }
  const call = <R>(put: (answer: (error: ServiceError | null, response: R) => void) => unknown): Promise<R> =>
    new Promise((resolve, reject) => put((error, response) => (error === null ? resolve(response) : reject(error))));
  const source = () => ({
    kind: { $case: 'http' as const, value: { urls: [`${server.url}/model.bin`], sha256: {} } },
    allowPrivate: true,
    unusableNames: '',
    allowWeakValidators: false,
  });
  const add = async (client: ControlClient, token: string) =>
    await client
      .addDataset({ name: 'd', source: source(), include: [], exclude: [], credentials: { ...none, ...keys, token } })
      .toArray();
  const tokenAt = ({ agent }: RunningAgent) => (agent.credentials.has('d') ? agent.credentials.of('d')?.token : '');
  const together = async (agents: RunningAgent[]) =>
    until(() =>
      agents.every(({ agent }) => agent.context.members.all().filter((one) => one.control).length === agents.length),
    );

  it('share credentials by certificate, and give them to no other client', async () => {
    const [a, b] = await Promise.all([start('a'), start('b')]);
    await together([a.running, b.running]);
    await add(await tlsClient(a.running, ['operator.hearth.hearth']), secret);
    await until(() => tokenAt(b.running) === secret);
    assert.equal(tokenAt(a.running), secret);
    const strangers = [
      await tlsClient(a.running, ['operator.hearth.hearth']),
      await tlsClient(a.running, ['agent.other.hearth', 'xagent.hearth.hearth', 'agent.hearth.hearth.x']),
      socketClient('a'),
    ];
    for (const client of strangers) {
      await assert.rejects(
        call((answer) => client.getCredentials({ dataset: 'd' }, answer)),
        {
          code: 7,
          details: /only agents of this cluster|the control API accepts agent\.hearth\.hearth/,
        },
      );
    }
    const agent = await tlsClient(a.running, ['agent.hearth.hearth']);
    const given = await call<{ known: boolean }>((answer) => agent.getCredentials({ dataset: 'd' }, answer));
    assert.deepEqual(given, { known: true, credentials: { ...none, ...keys, token: secret, mirrors: undefined } });
    assert.equal(
      (await call<{ known: boolean }>((answer) => agent.getCredentials({ dataset: 'other' }, answer))).known,
      false,
    );
  });

  it('get credentials from peers after a restart, and use no other identity before that', async () => {
    const [a, b] = await Promise.all([start('a'), start('b')]);
    await together([a.running, b.running]);
    await add(socketClient('a'), secret);
    await b.stop();
    const again = await start('b');
    await until(() => tokenAt(again.running) === secret);
    const manifest = again.running.agent.datasets.mirror.get('d')?.manifest ?? '';
    const key = revisionKey({ manifest, dataset: 'd' });
    await until(() => fabric.engines.get('b')?.bases.get(key)?.headers?.authorization === `Bearer ${secret}`);
    assert.ok(server.requests.every((request) => request.authorization === `Bearer ${secret}`));
  });

  it('write credentials nowhere: not into store, log, metrics, status or errors', async () => {
    const [a, b] = await Promise.all([start('a'), start('b')]);
    await together([a.running, b.running]);
    const client = socketClient('a');
    const wrong = 'hf_AnotherTokenOfNobody';
    const refused = (await add(client, wrong).catch((error: ServiceError) => error)) as ServiceError;
    assert.equal(refused.code, 7);
    await add(client, secret);
    await call((answer) =>
      client.setCredentials({ dataset: 'd', credentials: { ...none, ...keys, token: secret } }, answer),
    );
    const seen: Record<string, string> = { log, refused: `${refused.details} ${JSON.stringify(refused)}` };
    for (const { running } of [a, b]) {
      seen[`metrics of ${running.health}`] = await (await fetch(`http://${running.health}/metrics`)).text();
    }
    const text = (value: unknown) =>
      JSON.stringify(value, (_, one) => (typeof one === 'bigint' ? one.toString() : one));
    const status = await call<GetStatusResponse>((answer) => client.getStatus({}, answer));
    const missing = status.nodes.map(({ figuresMissing }) => figuresMissing);
    assert.deepEqual(missing, ['', ''], 'agents ask each other over TLS');
    seen.status = text(status);
    seen.dataset = text(await call((answer) => client.getDataset({ name: 'd' }, answer)));
    const { entries } = await a.running.agent.context.store.range('');
    seen.store = text(entries);
    for (const name of await readdir(join(folder, 'state'))) {
      seen[name] = await readFile(join(folder, 'state', name), 'latin1');
    }
    assert.match(seen.store, /"credentialed\\":true/);
    assert.ok(log.length > 1000, 'the log is written');
    for (const [place, contents] of Object.entries(seen)) {
      for (const word of [secret, wrong, ...Object.values(keys)]) {
        assert.ok(!contents.includes(word), `${word} is in ${place}`);
      }
    }
  });

  it('refuse a dataset whose credentials cannot read its bytes', async () => {
    const { running } = await start('a');
    server.handler = (request, response) => {
      if (request.method === 'HEAD') sendFile(request, response, Buffer.from('x'), { etag: '"1"' });
      else response.writeHead(403).end();
    };
    await assert.rejects(add(socketClient('a'), secret), {
      code: 7,
      details: /model\.bin refuses access \(403\)/,
    });
    await until('the mirror has the record', () => running.agent.datasets.mirror.get('d')?.state === 'Failed');
  });

  it('keep the credentials of a dataset that another user tries to add from another source', async () => {
    const { running } = await start('a');
    const client = socketClient('a');
    await add(client, secret);
    const other = { ...source(), unusableNames: 'Skip', allowWeakValidators: false };
    const request = { name: 'd', source: other, include: [], exclude: [], credentials: { ...none, token: 'evil' } };
    await assert.rejects(client.addDataset(request).toArray(), { code: 6 });
    assert.equal(tokenAt(running), secret);
  });
});
