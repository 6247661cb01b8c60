import assert from 'node:assert/strict';
import { stat, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import type { ServiceError } from '@grpc/grpc-js';
import type { GetStatusResponse, WarmJob } from '@hearth/common/generated/hearth/v1/control.ts';
import { steady, until } from '@hearth/common/testing';
import type { TestCluster } from '../testing/cluster.ts';
import { directorySource } from '../testing/fake_origin.ts';
import { ControlApi } from './server.ts';
import { addRequest, collect, failsWith, TestControl, warmJob } from './testing/test_control.ts';

const secret = Buffer.from('the secret of the cluster');

describe('control API', () => {
  let control: TestControl;
  let cluster: TestCluster;
  let client: TestControl['client'];
  let api: TestControl['api'];
  let socket: string;
  let call: TestControl['call'];
  let add: TestControl['add'];
  beforeEach(async () => {
    control = await TestControl.start();
    ({ cluster, client, api, socket, call, add } = control);
  });
  afterEach(() => control.close());

  it('is a socket of mode 0600, and replaces a stale one', async () => {
    assert.equal((await stat(socket)).mode & 0o777, 0o600);
    const second = new ControlApi(cluster.agent('b'), { socket, cluster: 'test', secret, prepare: (source) => source });
    await assert.rejects(second.listen(), { code: 'InUse', message: /another process listens on/ });
    const stale = join(cluster.folder, 'stale.sock');
    await writeFile(stale, '');
    const third = new ControlApi(cluster.agent('b'), {
      socket: stale,
      cluster: 'test',
      secret,
      prepare: (source) => source,
    });
    await third.listen();
    await third.close(1_000);
  });

  it('adds, lists, shows and removes datasets', async () => {
    const messages = await add();
    const last = messages.at(-1);
    assert.deepEqual(
      [last?.dataset?.state, last?.dataset?.files, last?.filesListed, last?.unchanged],
      ['Ready', 3n, 3n, false],
    );
    assert.equal((await add()).at(-1)?.unchanged, true);
    assert.deepEqual(
      (await call('listDatasets', {})).datasets.map((dataset) => dataset.name),
      ['d'],
    );
    assert.equal((await call('getDataset', { name: 'd' })).bytes, 3_000_010n);
    const entries = await collect(client.listEntries({ dataset: 'd', path: '/b/', recursive: false }));
    assert.deepEqual(
      entries.map((entry) => [entry.path, entry.size]),
      [
        ['b/c.bin', 10n],
        ['b/d.txt', 0n],
      ],
    );
    await call('removeDataset', { name: 'd', evict: true, nodes: [] });
    await assert.rejects(call('getDataset', { name: 'd' }), failsWith('NotFound', /there is no dataset d/));
  });

  it('maps errors to a status, a name and a sentence', async () => {
    await assert.rejects(call('getDataset', { name: 'none' }), (error: ServiceError) => error.code === 5);
    await assert.rejects(
      call('createWarmJob', { ...warmJob, verify: 'hard' }),
      failsWith('InvalidArgument', /verify is "hard"; it must be none, checksum, digest/),
    );
    await assert.rejects(
      call('mount', { dataset: 'd', target: 'relative', dataPath: '' }),
      failsWith('InvalidArgument', /absolute path/),
    );
    await assert.rejects(
      collect(client.addDataset(addRequest('x', undefined))),
      failsWith('InvalidArgument', /no source/),
    );
    const source = { ...directorySource, allowPrivate: true };
    await assert.rejects(collect(client.addDataset(addRequest('x', source))), failsWith('PermissionDenied', /private/));
  });

  it('streams the states of a warm job to its end, and cancels', async () => {
    await add();
    await call('createWarmJob', warmJob);
    const states = await collect(client.watchWarmJob({ name: 'j' }));
    assert.equal(states.at(-1)?.state, 'Succeeded');
    assert.deepEqual(
      states.at(-1)?.nodes.map((node) => node.filesReady),
      [3n, 3n],
    );
    cluster.fabric.bytesPerSecond = 1;
    await call('evict', { dataset: 'd', paths: [], nodes: [] });
    await call('createWarmJob', { ...warmJob, name: 'k' });
    const seen: WarmJob[] = [];
    const stream = client.watchWarmJob({ name: 'k' });
    stream.on('data', (message: WarmJob) => seen.push(message));
    await until(() => seen.some((message) => message.state === 'Running'));
    assert.equal((await call('cancelWarmJob', { name: 'k' })).state, 'Cancelled');
    await until(() => seen.at(-1)?.state === 'Cancelled');
    assert.deepEqual(
      (await call('listWarmJobs', {})).jobs.map((one) => one.name),
      ['k', 'j'],
    );
  });

  it('lets a client leave a stream without harm', async () => {
    await add();
    cluster.fabric.bytesPerSecond = 1;
    await call('createWarmJob', warmJob);
    const stream = client.watchWarmJob({ name: 'j' });
    const ended = new Promise((resolve) => stream.on('error', resolve));
    stream.on('data', () => stream.cancel());
    assert.equal(((await ended) as ServiceError).code, 1);
    assert.equal((await call('getWarmJob', { name: 'j' })).state, 'Running');
  });

  it('shows nodes, residency, jobs and mounts in one status', async () => {
    await add();
    await call('createWarmJob', { ...warmJob, nodes: ['b'] });
    await collect(client.watchWarmJob({ name: 'j' }));
    await call('mount', { dataset: 'd', target: '/mnt/d/', dataPath: '' });
    const status = await until(async () => {
      const seen = await call('getStatus', {});
      const [a, b] = seen.nodes.map((node) => node.residentBytes.d);
      return a !== undefined && b === 3_000_010n && seen;
    });
    assert.deepEqual([status.cluster, status.node], ['test', 'a']);
    assert.deepEqual(
      status.nodes.map((node) => [node.node, node.ready, node.residentBytes.d]),
      [
        ['a', true, 0n],
        ['b', true, 3_000_010n],
      ],
    );
    assert.deepEqual(
      status.mounts.map((mount) => [mount.target, mount.dataset]),
      [['/mnt/d', 'd']],
    );
    assert.equal(status.jobs[0]?.state, 'Succeeded');
    await assert.rejects(
      call('removeDataset', { name: 'd', evict: false, nodes: [] }),
      failsWith('InUse', /mounted on a/),
    );
    await call('unmount', { target: '/mnt/d' });
    assert.equal((await call('listMounts', {})).mounts.length, 0);
  });

  it('streams the status now and after changes, not more often than requested', async () => {
    const seen: GetStatusResponse[] = [];
    const began = performance.now();
    const stream = client.watchStatus({ intervalMs: 200 });
    stream.on('data', (status: GetStatusResponse) => seen.push(status));
    stream.on('error', () => {});
    const last = () => seen.at(-1);
    await until(() => last()?.nodes.length === 2);
    await add();
    await until(() => last()?.datasets[0]?.residency.length === 2);
    cluster.fabric.bytesPerSecond = 3_000_000;
    await call('createWarmJob', { ...warmJob, nodes: ['b'] });
    await until(() => last()?.datasets[0]?.residency.some((one) => one.residentBytes === 3_000_010n) ?? false);
    await call('mount', { dataset: 'd', target: '/mnt/d', dataPath: '' });
    await until(() => last()?.mounts.length === 1);
    await call('unmount', { target: '/mnt/d' });
    await until(() => last()?.mounts.length === 0);
    const spanMs = performance.now() - began;
    assert.ok(seen.length <= spanMs / 200 + 2, `${seen.length} in ${spanMs} ms`);
    // The stream is silent while nothing changes.
    await steady('what was sent', 500, () => seen.length);
    stream.cancel();
  });

  it('shows other agents the place and capabilities of a node', async () => {
    cluster.probes = [{ name: 'huge pages', status: 'ok', detail: '', advice: '' }];
    await call('configureNode', { zone: 'z1', rack: 'r7' });
    await until(async () => {
      const [a, b] = (await call('getStatus', {})).nodes;
      const huge = b?.capabilities.find((one) => one.name === 'huge-pages');
      return a?.zone === 'z1' && a.rack === 'r7' && b?.zone === 'z' && huge?.ready === true;
    });
    const [, b] = (await call('getStatus', {})).nodes;
    assert.deepEqual(
      b?.capabilities.map((one) => [one.name, one.ready]),
      [
        ['fuse', false],
        ['passthrough', false],
        ['huge-pages', true],
        ['rdma', false],
        ['gpu-direct', false],
        ['budget', false],
        ['volumes', true],
        ['arena', true],
        ['cache-directories', true],
      ],
    );
    assert.match(b?.capabilities[3]?.reason ?? '', /not probed/);
  });

  it('ends streams when the agent ends', async () => {
    await add();
    cluster.fabric.bytesPerSecond = 1;
    await call('createWarmJob', warmJob);
    const ended = collect(client.watchWarmJob({ name: 'j' })).catch((error: ServiceError) => error);
    await call('getWarmJob', { name: 'j' });
    // Far beyond the duration of a test: close() must end the calls by itself.
    await api.close(3_600_000);
    assert.ok((await ended) instanceof Error);
    // Another program may take the path now.
    const other = createServer().listen(socket);
    await new Promise((resolve) => other.once('listening', resolve));
    await new Promise((resolve) => other.close(resolve));
  });
});
