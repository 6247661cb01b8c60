import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { stat, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { type ClientReadableStream, credentials, type handleUnaryCall, type ServiceError } from '@grpc/grpc-js';
import { errorCodeKey, HearthError } from '@hearth/common';
import {
  type AddDatasetRequest,
  ControlClient,
  type ControlServer,
  type GetStatusResponse,
  type Source,
  type VerifiedFile,
  type WarmJob,
} from '@hearth/common/generated/hearth/v1/control.ts';
import { steady, until } from '@hearth/common/testing';
import { TestCluster } from '../testing/cluster.ts';
import { directorySource, fileRow } from '../testing/fake_origin.ts';
import { ControlApi } from './server.ts';

const rows = [fileRow('a.bin', 3_000_000n), fileRow('b/c.bin', 10n), fileRow('b/d.txt', 0n)];
const job = {
  dataset: 'd',
  paths: [],
  nodes: [],
  manifest: '',
  replicas: 0,
  pin: false,
  pinOwner: '',
  priority: 0,
  rateLimit: 0n,
  peerRateLimit: 0n,
  deadlineSeconds: 0n,
  verify: '',
  name: 'j',
  ensure: false,
  readyWhen: '',
};
const secret = Buffer.from('the secret of the cluster');
/** Of a pin that asks for nothing special. */
const plain = { manifest: '', tolerant: false, moreOwners: [] };

function addRequest(name: string, source: Source | undefined): AddDatasetRequest {
  return { name, source, include: [], exclude: [], credentials: undefined };
}

type Unary<K extends string> =
  ControlServer[K] extends handleUnaryCall<infer Q, infer R> ? { request: Q; response: R } : never;

describe('control API', () => {
  let cluster: TestCluster;
  let api: ControlApi;
  let client: ControlClient;
  let socket: string;
  beforeEach(async () => {
    cluster = await TestCluster.start(['a', 'b'], rows);
    socket = join(cluster.folder, 'run', 'agent.sock');
    const prepare = (source: typeof directorySource) => {
      if (source.allowPrivate) throw new HearthError('PermissionDenied', 'private addresses are refused; ask for less');
      return source;
    };
    api = new ControlApi(cluster.agent('a'), { socket, cluster: 'test', secret, prepare });
    await api.listen();
    client = new ControlClient(`unix://${socket}`, credentials.createInsecure(), {
      'grpc.default_authority': 'localhost',
    });
  });
  afterEach(async () => {
    client.close();
    await api.close(2_000);
    await cluster.close();
  });

  function call<K extends string>(name: K, request: Unary<K>['request']): Promise<Unary<K>['response']> {
    return new Promise((resolve, reject) => {
      const done = (error: ServiceError | null, response: Unary<K>['response']) =>
        error ? reject(error) : resolve(response);
      const methods = client as unknown as Record<string, (message: unknown, callback: typeof done) => void>;
      methods[name]?.call(client, request, done);
    });
  }
  async function collect<R>(stream: ClientReadableStream<R>): Promise<R[]> {
    return await stream.toArray();
  }
  async function add(name = 'd') {
    return await collect(client.addDataset(addRequest(name, directorySource)));
  }
  const failsWith = (code: string, message: RegExp) => (error: ServiceError) => {
    assert.equal(error.metadata.get(errorCodeKey)[0], code);
    assert.match(error.details, message);
    return true;
  };

  it('is a socket that only its owner may open, and replaces one that was left behind', async () => {
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
      call('createWarmJob', { ...job, verify: 'hard' }),
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

  it('warms with a stream of states that ends, and cancels', async () => {
    await add();
    await call('createWarmJob', job);
    const states = await collect(client.watchWarmJob({ name: 'j' }));
    assert.equal(states.at(-1)?.state, 'Succeeded');
    assert.deepEqual(
      states.at(-1)?.nodes.map((node) => node.filesReady),
      [3n, 3n],
    );
    cluster.fabric.bytesPerSecond = 1;
    await call('evict', { dataset: 'd', paths: [], nodes: [] });
    await call('createWarmJob', { ...job, name: 'k' });
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
    await call('createWarmJob', job);
    const stream = client.watchWarmJob({ name: 'j' });
    const ended = new Promise((resolve) => stream.on('error', resolve));
    stream.on('data', () => stream.cancel());
    assert.equal(((await ended) as ServiceError).code, 1);
    assert.equal((await call('getWarmJob', { name: 'j' })).state, 'Running');
  });

  it('pins and evicts on the agents named, by way of the store', async () => {
    const { manifest } = (await add()).at(-1)?.dataset ?? { manifest: '' };
    await call('createWarmJob', job);
    await collect(client.watchWarmJob({ name: 'j' }));
    const pinned = await call('pin', { dataset: 'd', paths: ['a.bin'], nodes: ['b'], owner: '', ...plain });
    assert.deepEqual(pinned.nodes, ['b']);
    assert.ok(cluster.engine('b').pins.get(manifest)?.has('d/user'));
    const evicted = await call('evict', { dataset: 'd', paths: [], nodes: [] });
    assert.deepEqual(
      evicted.nodes.map((node) => [node.node, node.filesFreed, node.filesKept]),
      [
        ['a', 2n, 0n],
        ['b', 1n, 1n],
      ],
    );
    await call('pin', { dataset: 'd', paths: ['a.bin'], nodes: ['b'], owner: '', ...plain, moreOwners: ['x', 'y'] });
    assert.deepEqual([...(cluster.engine('b').pins.get(manifest)?.keys() ?? [])], ['d/user', 'd/x', 'd/y']);
    await call('unpin', { dataset: 'd', paths: [], nodes: ['b'], owner: '', ...plain, moreOwners: ['x', 'y'] });
    const again = await call('evict', { dataset: 'd', paths: [], nodes: ['b'] });
    assert.equal(again.nodes[0]?.bytesFreed, 3_000_000n);
    await assert.rejects(
      call('pin', { dataset: 'd', paths: [], nodes: ['x'], owner: '', ...plain }),
      failsWith('NotFound', /no agent x/),
    );
    await assert.rejects(
      call('pin', { dataset: 'd', paths: ['*.none'], nodes: [], owner: '', ...plain }),
      failsWith('NotFound', /0 of 2 agents did pin; a: no file/),
    );
    const { entries } = await cluster.store('a').range('requests/');
    assert.equal(entries.length, 0, 'requests are cleared away');
    const half = await call('pin', { ...plain, dataset: 'd', paths: [], nodes: ['a'], owner: 'p/1/x', tolerant: true });
    assert.deepEqual([half.nodes, half.failures], [['a'], []]);
    const { pins } = await call('listPins', { ownerPrefix: 'p/1/' });
    assert.deepEqual(pins, [{ node: 'a', dataset: 'd', manifest, paths: [], owner: 'p/1/x' }]);
    await assert.rejects(
      call('releasePins', { ownerPrefix: '', nodes: [], exceptOwners: [] }),
      failsWith('InvalidArgument', /what it begins with/),
    );
    assert.deepEqual(await call('releasePins', { ownerPrefix: 'p/1/', nodes: [], exceptOwners: [] }), { pins: 1 });
    await until(() => cluster.engine('a').pins.get(manifest)?.has('d/p/1/x') === false);
    assert.deepEqual(await call('measureFiles', { dataset: 'd', manifest, paths: ['b/*'] }), { files: 2n, bytes: 10n });
  });

  it('takes advice for nodes and for the cluster', async () => {
    await add();
    const advise = { dataset: 'd', paths: [], manifest: '', scope: '', nodes: [], memoryOnly: false, force: false };
    const { job: begun } = await call('advise', { ...advise, advice: 'willneed', nodes: ['a', 'b'] });
    assert.equal(begun?.advice, 'node');
    await collect(client.watchWarmJob({ name: begun?.name ?? '' }));
    await call('pin', { dataset: 'd', paths: ['a.bin'], nodes: ['b'], owner: '', ...plain });
    const { nodes } = await call('advise', { ...advise, advice: 'dontneed', scope: 'cluster' });
    assert.deepEqual(
      nodes.map(({ node, filesFreed, filesPinned, message }) => [node, filesFreed, filesPinned, message]),
      [
        ['a', 2n, 0n, ''],
        ['b', 1n, 1n, '1 pinned (hearth unpin)'],
      ],
    );
    const refused = [
      [{ advice: 'perhaps' }, /advice is "perhaps"/],
      [{ advice: 'dontneed', scope: 'rack' }, /scope is "rack"/],
      [{ advice: 'dontneed', scope: 'cluster', nodes: ['a'] }, /name none/],
      [{ advice: 'willneed', force: true }, /are for dontneed/],
    ] as const;
    for (const [changes, message] of refused) {
      const request = { ...advise, ...changes, nodes: 'nodes' in changes ? [...changes.nodes] : [] };
      await assert.rejects(call('advise', request), failsWith('InvalidArgument', message));
    }
  });

  it('asks nothing of agents that have no cache, and says so of those that are named', async () => {
    await add();
    cluster.withoutCache.add('b');
    const { nodes } = await call('evict', { dataset: 'd', paths: [], nodes: [] });
    assert.deepEqual(
      nodes.map(({ node }) => node),
      ['a'],
    );
    const named = await call('evict', { dataset: 'd', paths: [], nodes: ['b'] });
    assert.match(named.nodes[0]?.message ?? '', /the agent does not serve/);
  });

  it('shows nodes, residency, jobs and mounts in one status', async () => {
    await add();
    await call('createWarmJob', { ...job, nodes: ['b'] });
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

  it('streams the status now and after changes, not more often than asked', async () => {
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
    await call('createWarmJob', { ...job, nodes: ['b'] });
    await until(() => last()?.datasets[0]?.residency.some((one) => one.residentBytes === 3_000_010n) ?? false);
    await call('mount', { dataset: 'd', target: '/mnt/d', dataPath: '' });
    await until(() => last()?.mounts.length === 1);
    await call('unmount', { target: '/mnt/d' });
    await until(() => last()?.mounts.length === 0);
    const spanMs = performance.now() - began;
    assert.ok(seen.length <= spanMs / 200 + 2, `${seen.length} in ${spanMs} ms`);
    // Nothing is sent while nothing changes.
    await steady('what was sent', 500, () => seen.length);
    stream.cancel();
  });

  it('shows the others where a node is, and what its machine offers', async () => {
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
      ],
    );
    assert.match(b?.capabilities[3]?.reason ?? '', /not looked at/);
  });

  it('publishes volumes and keeps a record of them', async () => {
    const { manifest } = (await add()).at(-1)?.dataset ?? { manifest: '' };
    const published = await call('publishVolume', { dataset: 'd', manifest: '' });
    assert.deepEqual(
      [published.path, published.manifest, published.dataPath, published.bytes, published.files],
      [join(cluster.volumesOf('a'), 'mounts', manifest, 'fuse-d'), manifest, 'fuse', 3_000_010n, 3n],
    );
    const volume = { name: 'pvc-1', dataset: 'd', capacityBytes: 5n, manifest: '' };
    assert.deepEqual(await call('createVolume', volume), volume);
    await assert.rejects(call('createVolume', { ...volume, capacityBytes: 6n }), failsWith('AlreadyExists', /pvc-1/));
    assert.deepEqual(await call('getVolume', { name: 'pvc-1' }), volume);
    assert.deepEqual((await call('listVolumes', {})).volumes, [volume]);
    assert.deepEqual(await call('deleteVolume', { name: 'pvc-1' }), {});
    assert.deepEqual(await call('deleteVolume', { name: 'pvc-1' }), {});
    await assert.rejects(call('getVolume', { name: 'pvc-1' }), failsWith('NotFound', /no volume/));
  });

  it('verifies each file and reads bytes with back-pressure', async () => {
    await add();
    const files = await collect<VerifiedFile>(client.verify({ dataset: 'd', paths: [], mode: '' }));
    assert.deepEqual(
      files.map((file) => [file.path, file.ok, file.originBytes]),
      [
        ['a.bin', true, 3_000_000n],
        ['b/c.bin', true, 10n],
        ['b/d.txt', true, 0n],
      ],
    );
    const whole = Buffer.concat(
      (await collect(client.read({ dataset: 'd', path: 'a.bin', offset: 0n, length: 0n }))).map((chunk) => chunk.data),
    );
    assert.equal(whole.length, 3_000_000);
    assert.equal(whole[1_000_003], 1_000_003 % 256);
    const part = await collect(client.read({ dataset: 'd', path: 'b/c.bin', offset: 3n, length: 4n }));
    assert.deepEqual([...(part[0]?.data ?? [])], [3, 4, 5, 6]);
    assert.deepEqual(await collect(client.read({ dataset: 'd', path: 'b/d.txt', offset: 0n, length: 0n })), []);
    await assert.rejects(
      collect(client.read({ dataset: 'd', path: 'b', offset: 0n, length: 0n })),
      failsWith('NotFound', /no file b/),
    );
    await assert.rejects(
      collect(client.read({ dataset: 'd', path: 'b/c.bin', offset: 11n, length: 0n })),
      failsWith('InvalidArgument', /behind the end/),
    );
  });

  it('gives all of a file only when that has its digest', async () => {
    const sourceDigest = createHash('sha256')
      .update(Uint8Array.of(0, 1, 2, 3, 4))
      .digest('hex');
    cluster.origin.rows = [
      { ...fileRow('good', 5n), sourceDigest },
      { ...fileRow('mixed', 3_000_000n), sourceDigest },
    ];
    await add();
    const read = (path: string, length = 0n) => client.read({ dataset: 'd', path, offset: 0n, length });
    assert.deepEqual([...((await collect(read('good')))[0]?.data ?? [])], [0, 1, 2, 3, 4]);
    assert.equal((await collect(read('mixed', 4n)))[0]?.data.length, 4);
    let given = 0;
    const readAll = async () => {
      for await (const { data } of read('mixed')) given += data.length;
    };
    await assert.rejects(readAll(), failsWith('OriginChanged', /mixed does not have the SHA-256/));
    assert.ok(given > 0 && given < 3_000_000);
  });

  it('ends streams when the agent ends', async () => {
    await add();
    cluster.fabric.bytesPerSecond = 1;
    await call('createWarmJob', job);
    const ended = collect(client.watchWarmJob({ name: 'j' })).catch((error: ServiceError) => error);
    await call('getWarmJob', { name: 'j' });
    // Calls still open after this are cut off: longer than a test may take.
    await api.close(3_600_000);
    assert.ok((await ended) instanceof Error);
    // Another program may take the path now.
    const other = createServer().listen(socket);
    await new Promise((resolve) => other.once('listening', resolve));
    await new Promise((resolve) => other.close(resolve));
  });
});
