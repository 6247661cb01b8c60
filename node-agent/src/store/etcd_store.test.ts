import assert from 'node:assert/strict';
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { HearthError } from '@hearth/common';
import { Authority, elapse, findTool, until } from '@hearth/common/testing';
import { SecretFolder } from '../tls/testing/secret_folder.ts';
import { EtcdStore } from './etcd_store.ts';
import type { Store } from './store.ts';
import { EtcdServer } from './testing/etcd_server.ts';
import { patient } from './testing/patient.ts';
import { WatchLog } from './testing/watch_log.ts';

const fails = (expected: string, words: RegExp) => (thrown: unknown) => {
  assert.ok(thrown instanceof HearthError);
  assert.equal(thrown.code, expected, thrown.message);
  assert.match(thrown.message, words);
  return true;
};

const onlyUnavailable = (thrown: unknown): void => {
  if (HearthError.from(thrown).code !== 'Unavailable') throw thrown;
};

/** Repeats until refused like this: on a busy machine a call may time out before any member has answered. */
async function isRefused(ask: () => Promise<unknown>, code: string, message: RegExp): Promise<void> {
  await until(`${code} ${message}`, async () => {
    const thrown = await ask().then(
      () => assert.fail('it was not refused'),
      (error) => HearthError.from(error),
    );
    return thrown.code === code && message.test(thrown.message);
  });
}

describe('EtcdStore without an etcd', () => {
  it('reports that no server answers, with endpoint and reason', async () => {
    const store = EtcdStore.open('etcd://127.0.0.1:1,127.0.0.1:2');
    const get = () => store.get('k', { deadlineMs: 500 });
    await isRefused(get, 'Unavailable', /127\.0\.0\.1:[12] reported: .*ECONNREFUSED/);
    await isRefused(() => store.put('k', 'v', { deadlineMs: 500 }), 'Unavailable', /nothing was sent/);
    await store.close();
  });

  it('names an unreadable file', () => {
    assert.throws(
      () => EtcdStore.open('etcd://a?ca=/nowhere/ca.pem'),
      fails('InvalidArgument', /ca of the store \/nowhere\/ca\.pem cannot be read \(ENOENT/),
    );
    assert.throws(() => EtcdStore.open('etcd://a?user=u&passwordFile=/nowhere/p'), fails('NotFound', /'passwordFile'/));
  });
});

describe('EtcdStore', () => {
  let program = '';
  let folder = '';
  let server: EtcdServer;
  const opened: Store[] = [];
  const servers: EtcdServer[] = [];
  const open = (rest = '', endpoints = server.endpoint): EtcdStore => {
    const store = EtcdStore.open(`etcd://${endpoints}${rest}`);
    opened.push(store);
    return store;
  };
  const start = async (...extra: string[]): Promise<EtcdServer> => {
    const one = new EtcdServer(program, extra);
    servers.push(one);
    await one.start();
    return one;
  };

  before(async function () {
    const found = await findTool('etcd');
    if ('program' in found) {
      program = found.program;
      return;
    }
    console.log(`      skipped: ${found.missing}`);
    this.skip();
  });
  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'hearth-etcd-test-'));
    server = await start();
  });
  afterEach(async () => {
    for (const store of opened.splice(0)) await store.close();
    for (const one of servers.splice(0)) await one.erase();
    rmSync(folder, { recursive: true, force: true });
  });

  it('waits for a server that comes back, for reads, writes and keep-alives', async () => {
    const store = open();
    const { lease } = await store.grantLease(60);
    await store.put('k', '1', { lease });
    await server.kill();
    // A write sent before the loss is noticed could not be repeated.
    await isRefused(() => store.get('k', { deadlineMs: 500 }), 'Unavailable', /ECONNREFUSED/);
    const calls = [
      store.get('k', patient),
      store.put('k', '2', { lease, ...patient }),
      store.keepAlive(lease, patient),
    ];
    await elapse(300, 'calls find no server');
    await server.start();
    await Promise.all(calls);
    assert.equal((await store.get('k'))?.value, '2');
  });

  it('uses the next endpoint when one is dead or silent', async () => {
    // Accepts and never answers, like a machine that has stopped.
    const accepted: Socket[] = [];
    const silent: Server = createServer((socket) => accepted.push(socket)).listen(0, '127.0.0.1');
    await new Promise((done) => silent.once('listening', done));
    const { port } = silent.address() as { port: number };
    const store = open('', `127.0.0.1:1,127.0.0.1:${port},${server.endpoint}`);
    await store.put('k', '1');
    assert.equal((await store.get('k'))?.value, '1');
    for (const socket of accepted) socket.destroy();
    silent.close();
  });

  for (const refused of [false, true]) {
    const before = refused ? 'after it was refused' : 'at first';
    it(`reconnects when an attempt is neither accepted nor refused, ${before}`, async () => {
      // The first connection leads nowhere, like one to a vanished pod; later ones reach the server.
      const sockets: Socket[] = [];
      const relay = createServer((socket) => {
        sockets.push(socket);
        if (sockets.length === 1) return;
        const [host, port] = server.endpoint.split(':');
        const other = connect(Number(port), host).on('error', () => socket.destroy());
        sockets.push(other.pipe(socket.on('error', () => other.destroy())).pipe(other));
      });
      const listen = async (port: number) => {
        relay.listen(port, '127.0.0.1');
        await new Promise((done) => relay.once('listening', done));
        return (relay.address() as { port: number }).port;
      };
      const port = await listen(0);
      if (refused) await new Promise((done) => relay.close(done));
      const store = open('', `127.0.0.1:${port}`);
      if (refused) {
        await isRefused(() => store.put('k', '1', { deadlineMs: 500 }), 'Unavailable', /ECONNREFUSED/);
        await listen(port);
      }
      // Without another attempt the call would wait for its deadline, because nothing ends the first attempt.
      await store.put('k', '1', { deadlineMs: 300_000 });
      assert.ok(sockets.length > 1);
      await store.close();
      for (const socket of sockets) socket.destroy();
      relay.close();
    });
  }

  it('survives the failure of each member of three in turn', async () => {
    const cluster = await EtcdServer.cluster(program, 3);
    servers.push(...cluster);
    await Promise.all(cluster.map((member) => member.start()));
    const store = open('', cluster.map((member) => member.endpoint).join());
    const { lease } = await store.grantLease(300);
    const log = new WatchLog(store, '', await store.put('k', '0', { lease }));
    for (const [index, member] of cluster.entries()) {
      await member.kill();
      await store.keepAlive(lease, patient);
      // Only a read shows whether an unanswered write happened.
      const value = String(index + 1);
      while ((await store.get('k', patient))?.value !== value)
        await store.put('k', value, { lease }).catch(onlyUnavailable);
      await member.start();
    }
    await until('the last event', () => log.words.at(-1)?.startsWith('+k=3@') === true);
    await log.stop();
    const versions = log.events.map((event) => event.kind === 'put' && event.entry.version);
    assert.deepEqual(
      versions,
      Array.from(versions, (_, index) => index + 1),
    );
  });

  it('reports that an unanswered write may have happened', async () => {
    const store = open();
    await store.put('k', '1');
    await server.pause();
    const write = assert.rejects(store.put('k', '2'), fails('Unavailable', /may or may not have been written/));
    await elapse(200, 'the write is sent');
    await server.kill();
    await write;
  });

  it('ends watches when etcd has lost its data, even when revisions have caught up', async () => {
    const store = open();
    const log = new WatchLog(store, '', await store.put('k', '1'));
    await until('the event', () => log.events.length === 1);
    await server.erase();
    await server.start();
    const other = open();
    for (let count = 0; count < 10; count++) await other.put('new', String(count));
    await log.ended;
    assert.equal(log.items.at(-1)?.kind, 'compacted');
    assert.equal(log.events.length, 1);
  });

  it('separates spaces', async () => {
    const [blue, green] = [open('/blue'), open('/green')];
    const from = await blue.put('k', 'blue');
    const log = new WatchLog(blue, '', from);
    await green.put('k', 'green');
    await blue.transact({ compare: [], success: [{ kind: 'deletePrefix', prefix: '' }] });
    await until('both events', () => log.events.length === 2);
    assert.equal((await green.get('k'))?.value, 'green');
    assert.deepEqual((await blue.range('')).entries, []);
  });

  it('authenticates by user and password, and again when its token is unknown', async () => {
    const root = open();
    await root.put('k', '1');
    await server.demandPassword('pass word');
    const [right, wrong] = [join(folder, 'right'), join(folder, 'wrong')];
    writeFileSync(right, 'pass word\n');
    writeFileSync(wrong, 'guess');
    const store = open(`?user=root&passwordFile=${right}`);
    const log = new WatchLog(store, 'k', await store.put('k', '2'));
    await until('the event', () => log.events.length === 1);
    // Simple tokens do not survive a restart.
    await server.restart();
    await store.put('k', '3');
    await until('the event after the restart', () => log.events.length === 2);
    await assert.rejects(open().get('k'), fails('Unauthenticated', /add user and passwordFile/));
    await assert.rejects(open(`?user=root&passwordFile=${wrong}`).get('k'), fails('Unauthenticated', /Check user/));
  });

  it('speaks TLS with certificates on both sides', async () => {
    const authority = Authority.create({ folder: join(folder, 'pki') });
    const own = authority.issue({ names: ['etcd.test', '127.0.0.1'] });
    const { certificate, key, authorities } = authority.issue({ names: ['etcd.test'] });
    const files = [`--cert-file=${own.certificate}`, `--key-file=${own.key}`, `--trusted-ca-file=${own.authorities}`];
    const secured = await start(...files, '--client-cert-auth');
    const client = `cert=${certificate}&key=${key}`;
    const store = open(`?ca=${authorities}&${client}&serverName=etcd.test`, secured.endpoint);
    await store.put('k', '1');
    assert.equal((await store.get('k'))?.value, '1');
    const untrusting = open(`?tls=true&${client}`, secured.endpoint);
    await isRefused(() => untrusting.get('k', { deadlineMs: 800 }), 'Unavailable', /certificate/);
    assert.throws(
      () => open(`?ca=${authorities}&cert=${certificate}&key=${join(authority.folder, 'ca.key')}`),
      fails('InvalidArgument', /belong together/),
    );
  });

  it('continues when all certificates are replaced', async () => {
    const authorities = [Authority.create({ name: 'first' }), Authority.create({ name: 'second' })] as const;
    try {
      const clientFiles = (authority: Authority) => {
        const { certificate, key } = authority.issue({ names: ['agent.test.hearth'] });
        return {
          'tls.crt': readFileSync(certificate),
          'tls.key': readFileSync(key),
          'ca.crt': readFileSync(authority.certificate),
        };
      };
      const serverFiles = (authority: Authority) => {
        const { certificate, key } = authority.issue({ names: ['etcd.test'] });
        copyFileSync(certificate, join(folder, 'renewed.crt'));
        copyFileSync(key, join(folder, 'renewed.key'));
        copyFileSync(authority.certificate, join(folder, 'renewed.ca'));
      };
      serverFiles(authorities[0]);
      const flags = ['cert-file=renewed.crt', 'key-file=renewed.key', 'trusted-ca-file=renewed.ca'];
      const secured = await start(
        ...flags.map((flag) => `--${flag.replace('=', `=${folder}/`)}`),
        '--client-cert-auth',
      );
      const secret = new SecretFolder(join(folder, 'secret'), clientFiles(authorities[0]));
      const at = (name: string) => join(secret.path, name);
      const tls = { ca: at('ca.crt'), cert: at('tls.crt'), key: at('tls.key'), serverName: 'etcd.test' };
      const store = EtcdStore.open(`etcd://${secured.endpoint}`, { tls });
      opened.push(store);
      await store.put('k', '1');
      serverFiles(authorities[1]);
      await secured.restart();
      await isRefused(() => store.get('k', { deadlineMs: 1_500 }), 'Unavailable', /certificate/);
      secret.write(clientFiles(authorities[1]));
      assert.equal((await store.get('k', { deadlineMs: 300_000 }))?.value, '1');
    } finally {
      for (const authority of authorities) authority.remove();
    }
  });
});
