import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ServiceError } from '@grpc/grpc-js';
import { HearthError } from '@hearth/common';
import type { GetStatusResponse } from '@hearth/common/generated/hearth/v1/control.ts';
import { freePort, RunningClock, until } from '@hearth/common/testing';
import type { EngineOptions } from '@hearth/engine';
import { engineOptions, testTimings } from '../testing/cluster.ts';
import { FakeDisk } from '../testing/fake_disk.ts';
import { FakeEngine, revisionKey } from '../testing/fake_engine.ts';
import { FakeFabric } from '../testing/fake_fabric.ts';
import { type Flags, socketClient, startAgent, testConfig } from '../testing/running_agent.ts';
import type { RunOptions } from './run_agent.ts';

describe('runAgent', () => {
  let folder: string;
  let fabric: FakeFabric;
  const disks = new Map<string, FakeDisk>();
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'hearth-run-'));
    fabric = new FakeFabric();
    disks.clear();
  });
  afterEach(async () => rm(folder, { recursive: true }));

  const engineFactory = async (options: EngineOptions) => {
    const path = options.cacheDirectories[0]?.path ?? '';
    const disk = disks.get(path) ?? new FakeDisk();
    disks.set(path, disk);
    return new FakeEngine(fabric, options, disk);
  };

  async function start(node: string, flags: Flags = {}, more: Partial<RunOptions> = {}) {
    const { serving, stop } = startAgent(await testConfig(folder, node, flags), { engineFactory, ...more });
    return { running: await serving, stop };
  }

  async function statusOf(node: string): Promise<GetStatusResponse> {
    const client = socketClient(folder, node);
    try {
      return await new Promise((resolve, reject) =>
        client.getStatus({}, (error: ServiceError | null, response) => (error ? reject(error) : resolve(response))),
      );
    } finally {
      client.close();
    }
  }

  it('serves, finds other agents, reads a real directory and ends cleanly', async () => {
    const data = join(folder, 'data');
    const [a, b] = await Promise.all([start('a'), start('b')]);
    await until(async () => (await statusOf('a')).nodes.filter((node) => node.ready).length === 2);
    await until(() => (fabric.engines.get('a')?.peers.filter((peer) => peer.ready).length ?? 0) === 2);
    // Over the socket of b, as both share this machine's store.
    await until(async () => (await statusOf('a')).nodes.every(({ budgetBytes }) => budgetBytes > 0n));
    assert.equal((await fetch(`http://${a.running.health}/readyz`)).status, 200);
    await mkdir(data);
    await writeFile(join(data, 'x.bin'), 'hello');
    const source = {
      kind: { $case: 'directory' as const, value: { path: data } },
      allowPrivate: false,
      unusableNames: '',
      allowWeakValidators: false,
    };
    const added = await a.running.agent.resolution.add(
      'd',
      { source, include: [], exclude: [] },
      () => {},
      AbortSignal.timeout(300_000),
    );
    assert.equal(added.dataset.bytes, 5n);
    await until(
      () =>
        fabric.engines.get('b')?.bases.get(revisionKey({ manifest: added.dataset.manifest, dataset: 'd' }))?.path ===
        data,
    );
    await b.stop();
    await until(async () => (await statusOf('a')).nodes.length === 1);
    await a.stop();
    assert.equal(fabric.engines.size, 0);
    assert.ok(!existsSync(join(folder, 'a.sock')));
  });

  it('comes back at once after a restart', async () => {
    const first = await start('a');
    await first.stop();
    const second = await start('a');
    assert.equal((await fetch(`http://${second.running.health}/readyz`)).status, 200);
    await second.stop();
  });

  const failures: [
    name: string,
    message: RegExp,
    code: string,
    prepare: () => Promise<[Flags, () => Promise<void>]>,
  ][] = [
    [
      'a health port in use',
      /health address 127\.0\.0\.1:\d+ is in use/,
      'InUse',
      async () => {
        const other = createServer().listen(0, '127.0.0.1');
        await new Promise((resolve) => other.once('listening', resolve));
        const { port } = other.address() as { port: number };
        return [{ 'health-listen': `127.0.0.1:${port}` }, async () => void other.close()];
      },
    ],
    [
      'a control socket in use',
      /another process listens on/,
      'InUse',
      async () => {
        const path = join(folder, 'busy.sock');
        const other = createServer().listen(path);
        await new Promise((resolve) => other.once('listening', resolve));
        return [{ 'control-socket': path }, async () => void other.close()];
      },
    ],
    [
      'a cache directory of another agent',
      /locked by another agent/,
      'InUse',
      async () => {
        const other = await start('other', { 'cache-directories': `${join(folder, 'shared')}=1GiB` });
        return [{ 'cache-directories': `${join(folder, 'shared')}=1GiB` }, other.stop];
      },
    ],
    [
      'a name that another agent has',
      /another agent is running as 'a'/,
      'InUse',
      async () => {
        const other = await start('a', {
          'cache-directories': `${join(folder, 'elsewhere')}=1GiB`,
          'control-socket': join(folder, 'e.sock'),
        });
        return [{}, other.stop];
      },
    ],
    [
      'a cache directory that cannot be made',
      /directory .*file\/below of the cache cannot be created/,
      'PermissionDenied',
      async () => {
        await writeFile(join(folder, 'file'), '');
        return [{ 'cache-directories': join(folder, 'file', 'below') }, async () => {}];
      },
    ],
  ];
  for (const [name, message, code, prepare] of failures) {
    it(`refuses to start with ${name}, and closes everything it opened`, async () => {
      const [flags, undo] = await prepare();
      const before = fabric.engines.size;
      // Another agent of this name may be a dead one for little longer than its lease.
      const timings = { ...testTimings, leaseSeconds: 1 };
      await assert.rejects(start('a', flags, { timings }), (error: HearthError) => {
        assert.ok(error instanceof HearthError);
        assert.match(error.message, message);
        assert.equal(error.code, code);
        return true;
      });
      assert.ok(fabric.engines.size <= before);
      await undo();
    });
  }

  /** Starts an agent that waits for its cache; `serving` resolves when it serves. */
  async function startPatient(node: string, flags: Flags, more: Partial<RunOptions> = {}) {
    const health = `127.0.0.1:${await freePort()}`;
    const config = await testConfig(folder, node, { 'on-start-failure': 'wait', 'health-listen': health, ...flags });
    const { serving, stop } = startAgent(config, { engineFactory, cacheLookMs: 100, ...more });
    /** Status 0: no answer yet. */
    const ask = async (path: string) => {
      const answer = await fetch(`http://${health}${path}`).catch(() => undefined);
      return { status: answer?.status ?? 0, text: (await answer?.text()) ?? '' };
    };
    return { serving, stop, ask };
  }

  it('waits for a cache that another agent holds, reports that, and serves once it is free', async () => {
    const shared = { 'cache-directories': `${join(folder, 'shared')}=1GiB` };
    const first = await start('a', shared);
    const second = await startPatient('b', shared);
    const locked = /the cache directory is locked by another agent/;
    await until(async () => locked.test((await second.ask('/readyz')).text));
    assert.equal((await second.ask('/healthz')).status, 200);
    assert.equal((await second.ask('/readyz')).status, 503);
    assert.match((await second.ask('/metrics')).text, locked);
    for (const asked of ['a', 'b']) {
      await until(async () => locked.test((await statusOf(asked)).nodes.find((one) => one.node === 'b')?.reason ?? ''));
      const { nodes } = await statusOf(asked);
      assert.deepEqual(
        nodes.map(({ node, ready, wire }) => [node, ready, wire.length]),
        [
          ['a', true, 1],
          ['b', false, 0],
        ],
      );
    }
    const { members } = first.running.agent.context;
    assert.deepEqual([members.names(), members.caching()], [new Set(['a', 'b']), new Set(['a'])]);
    assert.ok(
      fabric.engines.get('a')?.peers.every(({ node }) => node === 'a'),
      'no agent is asked for bytes that it cannot have',
    );
    await first.stop();
    const { agent } = await second.serving;
    assert.equal((await second.ask('/readyz')).status, 200);
    assert.equal((await statusOf('b')).nodes[0]?.ready, true);
    assert.equal(agent.context.members.all()[0]?.wire.length, 1);
    await second.stop();
  });

  it('reports the datasets and volumes of the cluster and refuses all other calls without a cache', async () => {
    const shared = { 'cache-directories': `${join(folder, 'shared')}=1GiB` };
    const first = await start('a', shared);
    const data = join(folder, 'data');
    await mkdir(data);
    await writeFile(join(data, 'x.bin'), 'hello');
    const kind = { $case: 'directory' as const, value: { path: data } };
    const source = { kind, allowPrivate: false, unusableNames: '', allowWeakValidators: false };
    const what = { source, include: [], exclude: [] };
    await first.running.agent.resolution.add('d', what, () => {}, AbortSignal.timeout(300_000));
    const { writableVolumes, context } = first.running.agent;
    await writableVolumes.create({ name: 'kv', kind: 'scratch', maxBytes: 0n, maxFiles: 0n }, context);
    const second = await startPatient('b', shared);
    await until(async () => /locked by another agent/.test((await second.ask('/readyz')).text));
    await until(async () => (await statusOf('b')).volumes[0]?.leader === 'a');
    const { datasets, mounts, volumes } = await statusOf('b');
    assert.deepEqual([datasets.map(({ name }) => name), mounts, volumes.length], [['d'], [], 1]);
    const client = socketClient(folder, 'b');
    try {
      const listing = new Promise((resolve, reject) =>
        client.listDatasets({}, (error: ServiceError | null, answer) => (error ? reject(error) : resolve(answer))),
      );
      await assert.rejects(listing, { code: 14, details: /does not serve: .*locked by another agent/ });
      const stream = client.verify({ dataset: 'd', paths: [], mode: '' });
      const failed = await new Promise<ServiceError>((resolve) => stream.on('error', resolve).resume());
      assert.match(failed.details, /does not serve/);
    } finally {
      client.close();
    }
    await first.running.agent.resolution.add('e', what, () => {}, AbortSignal.timeout(300_000));
    await until(async () => (await statusOf('b')).datasets.length === 2);
    await second.stop();
    await first.stop();
  });

  it('does not wait for a port in use by another program', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    const { port } = other.address() as AddressInfo;
    const { serving } = await startPatient('a', { 'wire-listen': `127.0.0.1:${port}` });
    await assert.rejects(serving, { code: 'InUse', message: /wire address .* is in use by another program/ });
    other.close();
  });

  it('becomes not ready when its cache is lost, and ready again when the cache returns', async () => {
    const { ask, serving, stop } = await startPatient('a', {});
    await serving;
    await rename(join(folder, 'a'), join(folder, 'away'));
    await until(async () => {
      const { status, text } = await ask('/readyz');
      return status === 503 && /cache directory .*\/a cannot be used \(ENOENT/.test(text);
    });
    await rename(join(folder, 'away'), join(folder, 'a'));
    await until(async () => (await ask('/readyz')).status === 200);
    await stop();
  });

  it('ends while the cache is still being opened', async () => {
    const [asked, opening] = [Promise.withResolvers<void>(), Promise.withResolvers<FakeEngine>()];
    const hanging = async () => {
      asked.resolve();
      return await opening.promise;
    };
    const { ask, serving, stop } = await startPatient('a', {}, { engineFactory: hanging });
    serving.catch(() => {});
    await asked.promise;
    await until(async () => /opening its cache/.test((await ask('/readyz')).text));
    await stop();
    const engine = new FakeEngine(fabric, { ...engineOptions('a', () => {}), incarnation: 'late' });
    opening.resolve(engine);
    await until(() => engine.closed);
  });

  it('names the step that hangs when shutdown takes too long', async () => {
    const [closing, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const hanging = async (options: EngineOptions) => {
      const engine = await engineFactory(options);
      engine.close = () => {
        closing.resolve();
        return released.promise;
      };
      return engine;
    };
    const clock = new RunningClock();
    const { running, stop } = await start('a', { 'shutdown-deadline': '1h' }, { engineFactory: hanging, clock });
    const isLate = assert.rejects(stop(), {
      code: 'DeadlineExceeded',
      message: /did not end within 3600 s: its engine had not ended/,
    });
    await closing.promise;
    await clock.advance(3_600_000);
    await isLate;
    released.resolve();
    // The health server is closed last.
    const gone = () =>
      fetch(`http://${running.health}/healthz`).then(
        () => false,
        () => true,
      );
    await until(gone);
  });
});
