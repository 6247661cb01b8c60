import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { credentials, type ServiceError } from '@grpc/grpc-js';
import { HearthError, silentLogger } from '@hearth/common';
import { ControlClient, type GetStatusResponse } from '@hearth/common/generated/hearth/v1/control.ts';
import type { EngineOptions } from '@hearth/engine';
import { loadConfig } from '../config/index.ts';
import { testPace } from '../testing/cluster.ts';
import { FakeDisk, FakeEngine } from '../testing/fake_engine.ts';
import { FakeFabric } from '../testing/fake_fabric.ts';
import { until } from '../testing/until.ts';
import { type RunningAgent, type RunOptions, runAgent } from './run_agent.ts';

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

  async function configOf(node: string, flags: Record<string, string | string[]> = {}) {
    const { config } = await loadConfig({
      environment: { HEARTH_SECRET: 'sixteen bytes or more' },
      flags: {
        node,
        store: `sqlite:${join(folder, 'state', 'store.sqlite')}`,
        'cache-directories': `${join(folder, node)}=1GiB`,
        'control-socket': join(folder, `${node}.sock`),
        'health-listen': '127.0.0.1:0',
        'wire-listen': '127.0.0.1:0',
        ...flags,
      },
    });
    return config;
  }

  const engineFactory = async (options: EngineOptions) => {
    const path = options.cacheDirectories[0]?.path ?? '';
    const disk = disks.get(path) ?? new FakeDisk();
    disks.set(path, disk);
    return new FakeEngine(fabric, options, disk);
  };

  async function start(node: string, flags: Record<string, string | string[]> = {}, more: Partial<RunOptions> = {}) {
    const controller = new AbortController();
    const ready = Promise.withResolvers<RunningAgent>();
    const options = {
      engineFactory,
      signal: controller.signal,
      logger: silentLogger,
      pace: testPace,
      onReady: ready.resolve,
      ...more,
    };
    const ended = runAgent(await configOf(node, flags), options);
    ended.catch(ready.reject);
    const running = await ready.promise;
    const stop = async () => {
      controller.abort();
      await ended;
    };
    return { running, stop };
  }

  async function statusOf(node: string): Promise<GetStatusResponse> {
    const address = `unix://${join(folder, `${node}.sock`)}`;
    const client = new ControlClient(address, credentials.createInsecure(), { 'grpc.default_authority': 'localhost' });
    try {
      return await new Promise((resolve, reject) =>
        client.getStatus({}, (error: ServiceError | null, response) => (error ? reject(error) : resolve(response))),
      );
    } finally {
      client.close();
    }
  }

  it('serves, finds the others, reads a real directory and ends in order', async () => {
    const data = join(folder, 'data');
    const [a, b] = await Promise.all([start('a'), start('b')]);
    await until(async () => (await statusOf('a')).nodes.filter((node) => node.ready).length === 2);
    await until(() => (fabric.engines.get('a')?.peers.filter((peer) => peer.ready).length ?? 0) === 2);
    assert.equal((await fetch(`http://${a.running.health}/readyz`)).status, 200);
    await mkdir(data);
    await writeFile(join(data, 'x.bin'), 'hello');
    const source = {
      kind: { $case: 'directory' as const, value: { path: data } },
      allowPrivate: false,
      unusableNames: '',
    };
    const added = await a.running.agent.resolution.add(
      'd',
      { source, include: [], exclude: [] },
      () => {},
      AbortSignal.timeout(3_000),
    );
    assert.equal(added.dataset.bytes, 5n);
    await until(() => fabric.engines.get('b')?.bases.get(added.dataset.manifest)?.path === data);
    await b.stop();
    await until(async () => (await statusOf('a')).nodes.length === 1);
    await a.stop();
    assert.equal(fabric.engines.size, 0);
    assert.ok(!existsSync(join(folder, 'a.sock')));
  });

  it('comes back at once after it was restarted', async () => {
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
    prepare: () => Promise<[Record<string, string | string[]>, () => Promise<void>]>,
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
      /another agent listens on/,
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
      /directory .*file\/below of the cache cannot be made/,
      'PermissionDenied',
      async () => {
        await writeFile(join(folder, 'file'), '');
        return [{ 'cache-directories': join(folder, 'file', 'below') }, async () => {}];
      },
    ],
  ];
  for (const [name, message, code, prepare] of failures) {
    it(`refuses to start with ${name}, and closes what it had opened`, async () => {
      const [flags, undo] = await prepare();
      const before = fabric.engines.size;
      await assert.rejects(start('a', flags), (error: HearthError) => {
        assert.ok(error instanceof HearthError);
        assert.match(error.message, message);
        assert.equal(error.code, code);
        return true;
      });
      assert.ok(fabric.engines.size <= before);
      await undo();
    }).timeout(15_000);
  }

  it('says what hangs when the end takes too long', async () => {
    const released = Promise.withResolvers<void>();
    const hanging = async (options: EngineOptions) => {
      const engine = await engineFactory(options);
      engine.close = () => released.promise;
      return engine;
    };
    const { stop } = await start('a', { 'shutdown-deadline': '1s' }, { engineFactory: hanging });
    await assert.rejects(stop(), { code: 'DeadlineExceeded', message: /did not end within 1 s: its engine hangs/ });
    released.resolve();
  });
});
