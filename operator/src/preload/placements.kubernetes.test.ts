import assert from 'node:assert/strict';
import type { CachePreload, CachePreloadStatus } from '@hearth/common/resources';
import { DaemonProcess, tool, until } from '@hearth/common/testing';
import { conditionOf, mib, PreloadCluster } from './testing/preload_cluster.ts';

describe('CachePreloads bring bytes to nodes', () => {
  let cluster: PreloadCluster;
  before(async function () {
    cluster = await PreloadCluster.start(this);
    await cluster.addNode('n1', { pool: 'gpu' });
    await cluster.addNode('n2', { pool: 'gpu' });
    await cluster.addNode('n3');
    await cluster.startExecutor();
  });
  after(async () => cluster?.stop());
  beforeEach(() => {
    cluster.origin.bytesPerSecond = undefined;
    cluster.origin.sentBytes = 0;
  });

  it('as many as asked for, reading the origin once, and pin them', async () => {
    const size = await cluster.dataset('replicas', { 'a.bin': 9 * mib, 'b.bin': 5 * mib });
    cluster.origin.sentBytes = 0;
    await cluster.preload('replicas', { placement: { replicas: 2, nodeSelector: { pool: 'gpu' } } });
    const { status } = await cluster.ready('replicas');
    assert.deepEqual(
      status?.nodes?.map(({ name, phase, bytesTotal, bytesReady, bytesVerified, percent }) => {
        return [name, phase, bytesTotal, bytesReady, bytesVerified, percent];
      }),
      ['n1', 'n2'].map((name) => [name, 'Ready', size, size, size, 100]),
    );
    assert.deepEqual(
      [status?.bytesTotal, status?.bytesReady, status?.percent, status?.nodesTotal, status?.nodesReady],
      [2 * size, 2 * size, 100, 2, 2],
    );
    assert.equal(status?.waitingFor, '');
    assert.ok(status?.startedAt !== undefined && status.completedAt !== undefined);
    const moved = status?.nodes?.reduce((sum, node) => sum + node.originBytes, 0);
    assert.equal(moved, size);
    await cluster.sentOnce(size);
    for (const node of ['n1', 'n2']) {
      const evicted = await cluster.hearth.json<{ nodes: { bytesFreed: number; filesKept: number }[] }>(
        'n1',
        'evict',
        'default.replicas',
        '--node',
        node,
      );
      assert.deepEqual([evicted.nodes[0]?.bytesFreed, evicted.nodes[0]?.filesKept], [0, 2], 'pins hold');
    }
    await cluster.remove('replicas');
    await until('unpinned', async () => {
      const dataset = (await cluster.status()).datasets.find(({ name }) => name === 'default.replicas');
      return dataset?.residency.every(({ pinned }) => !pinned);
    });
    await cluster.hearth.json('n1', 'evict', 'default.replicas');
    await until('evicted', async () =>
      Object.values(await cluster.residency('replicas')).every((bytes) => bytes === 0),
    );
    await cluster.removeDataset('replicas');
  });

  it('need no byte and no job where the bytes are', async () => {
    await cluster.dataset('there', { 'a.bin': 3 * mib });
    await cluster.hearth.json('n2', 'warm', 'default.there', '--node', 'n2', '--name', 'by-hand');
    await until('told', async () => (await cluster.kubernetes.dataset('there')).status?.percent === 100);
    cluster.origin.sentBytes = 0;
    await cluster.preload('there', { placement: { replicas: 1 } });
    const { status } = await cluster.ready('there');
    assert.deepEqual(
      status?.nodes?.map(({ name, bytesReady }) => [name, bytesReady]),
      [['n2', 3 * mib]],
    );
    assert.equal(cluster.origin.sentBytes, 0);
    const jobs = (await cluster.status()).jobs.filter(({ name }) => name.startsWith('preload-'));
    assert.deepEqual(
      jobs.filter(({ state }) => state === 'Running'),
      [],
    );
    await cluster.remove('there');
    await cluster.removeDataset('there');
  });

  it('are a progress bar to whoever watches', async () => {
    const seen: CachePreloadStatus[] = [];
    let size = 0;
    const watch = new DaemonProcess(await tool('kubectl'), [
      '--kubeconfig',
      cluster.kubernetes.server.kubeconfig,
      ...['get', 'cachepreloads', '-w', '-o', 'json', '--output-watch-events'],
    ]);
    try {
      await cluster.preload('bar', { placement: { nodeNames: ['n1', 'n3'] }, rateLimit: { origin: '4Mi' } });
      // It has nothing to bring before the watch shows it.
      await until('the watch has begun', () => /"name": *"bar"/.test(watch.said.stdout));
      size = await cluster.dataset('bar', { 'a.bin': 20 * mib, 'b.bin': 20 * mib });
      const { status } = await cluster.ready('bar');
      assert.equal(status?.bytesReady, 2 * size);
      await until('the watch has seen it', () => watch.said.stdout.includes('"completedAt"'));
      for (const event of jsonObjects(watch.said.stdout) as { object: CachePreload }[]) {
        if (event.object.metadata.name === 'bar' && event.object.status) seen.push(event.object.status);
      }
    } finally {
      await watch.end();
    }
    const ready = seen.map(({ bytesReady }) => bytesReady ?? 0);
    assert.deepEqual(
      ready,
      [...ready].sort((a, b) => a - b),
      'bytes never go back',
    );
    // How many steps there are depends on how busy the machine is.
    assert.ok(
      ready.some((bytes) => bytes > 0 && bytes < 2 * size),
      `no step on the way: ${ready}`,
    );
    const phases = seen.map(({ phase }) => phase).filter((phase, index, all) => phase !== all[index - 1]);
    assert.match(phases.join(' '), /^(Pending )?Warming (Verifying )?Ready$/);
    const moving = seen.filter(({ secondsLeft }) => secondsLeft !== undefined);
    assert.ok(moving.length > 0 && moving.every(({ bytesPerSecond = 0 }) => bytesPerSecond > 0));
    await cluster.remove('bar');
    await cluster.removeDataset('bar');
  });

  it('choose files by globs, and say when there are none', async () => {
    await cluster.dataset('globs', { 'a.bin': 2 * mib, 'b.txt': 1000 });
    await cluster.preload('globs', {
      datasets: [{ name: 'globs', paths: ['*.txt'] }],
      placement: { nodeNames: ['n1'] },
    });
    const { status } = await cluster.ready('globs');
    assert.deepEqual([status?.bytesTotal, status?.bytesReady], [1000, 1000]);
    await cluster.preload('globs', {
      datasets: [{ name: 'globs', paths: ['*.none'] }],
      placement: { nodeNames: ['n1'] },
    });
    const failed = await cluster.expect('globs', 'Failed', ({ status: now }) => now?.phase === 'Failed');
    assert.equal(conditionOf(failed, 'Ready').reason, 'NoFilesMatch');
    assert.match(conditionOf(failed, 'Ready').message, /no file .*\*\.none/);
    await cluster.remove('globs');
    await cluster.removeDataset('globs');
  });

  it('wait for a Dataset that there is not yet', async () => {
    await cluster.preload('later', { placement: { replicas: 1 } });
    const waiting = await cluster.expect('later', 'waits', ({ status }) => (status?.waitingFor ?? '') !== '');
    assert.match(waiting.status?.waitingFor ?? '', /waits for Dataset later: it does not exist yet/);
    assert.equal(conditionOf(waiting, 'DatasetsReady').reason, 'DatasetNotFound');
    await cluster.dataset('later', { 'a.bin': 1000 });
    await cluster.ready('later');
    await cluster.remove('later');
    await cluster.removeDataset('later');
  });

  it('say which nodes do not qualify, and why, when more are asked for', async () => {
    await cluster.dataset('many', { 'a.bin': 1000 });
    await cluster.preload('many', { placement: { replicas: 3, nodeSelector: { pool: 'gpu' } } });
    const few = await cluster.expect('many', 'has what there is', ({ status }) => status?.nodesReady === 2);
    const chosen = conditionOf(few, 'NodesChosen');
    assert.equal(chosen.reason, 'TooFewNodes');
    assert.equal(
      chosen.message,
      'spec.placement.replicas asks for 3 nodes, and 2 of 3 qualify: n3 does not have the labels of nodeSelector',
    );
    assert.equal(conditionOf(few, 'Ready').reason, 'TooFewNodes');
    await cluster.kubernetes.kubectl('label', 'node', 'n3', 'pool=gpu');
    await cluster.ready('many');
    await cluster.kubernetes.kubectl('label', 'node', 'n3', 'pool-');
    await cluster.remove('many');
    await cluster.removeDataset('many');
  });

  it('follow the plan for gated pods, and report how far they are at once', async () => {
    const size = await cluster.dataset('gated', { 'a.bin': 2 * mib });
    const placement = { gatedPods: { gate: {}, group: 'ReplicaSet/web' } };
    await cluster.preload('gated', { placement });
    // Before, it may wait for the dataset, which the executor hears of on a watch of its own.
    const waiting = await cluster.expect(
      'gated',
      'waits for its plan',
      ({ status }) => status?.conditions?.find(({ type }) => type === 'Ready')?.reason === 'AwaitingPlan',
    );
    assert.notEqual(waiting.status?.waitingFor ?? '', '');
    const executor = cluster.executor;
    assert.ok(executor !== undefined);
    await cluster.plan('gated', 'n3');
    await until('n3 has it', () => {
      const n3 = executor.readiness.of('default/gated')?.get('n3');
      return n3?.percent === 100 && n3.pinned;
    });
    const { status } = await cluster.ready('gated');
    assert.deepEqual(status?.pods, { waiting: 1, released: 0, reason: 'a test says so' });
    // A leader after this one finds the plan in its spec.
    const next = await cluster.startExecutor();
    await until('it is known again', () => next.readiness.of('default/gated')?.get('n3')?.pinned === true);
    await cluster.plan('gated', 'n1');
    await until('n1 has it', () => next.readiness.of('default/gated')?.get('n1')?.percent === 100);
    assert.equal(next.readiness.of('default/gated')?.has('n3'), false);
    await cluster.expect('gated', 'is on n1', ({ status: now }) => now?.nodes?.[0]?.name === 'n1');
    // The plan pins bytes that are there already.
    await cluster.plan('gated', 'n3');
    await until('n3 is ready again', () => {
      const n3 = next.readiness.of('default/gated')?.get('n3');
      return n3?.percent === 100 && n3.pinned;
    });
    await until('the figures say so', async () => (await cluster.residency('gated')).n3 === size);
    await cluster.remove('gated');
    await cluster.removeDataset('gated');
  });

  it('a hundred at once, where the bytes are', async () => {
    const size = await cluster.dataset('hundred', { 'a.bin': mib });
    await cluster.hearth.json('n1', 'warm', 'default.hundred');
    await until('told', async () => (await cluster.kubernetes.dataset('hundred')).status?.nodes === 3);
    const names = Array.from({ length: 100 }, (_, index) => `hundred-${index}`);
    const executor = cluster.executor;
    assert.ok(executor !== undefined);
    const preloads = names.map((name) => ({
      apiVersion: 'hearth.storage/v1alpha1',
      kind: 'CachePreload',
      metadata: { name, namespace: 'default', labels: { many: 'yes' } },
      spec: {
        datasets: [{ name: 'hundred' }],
        placement: { gatedPods: { gate: {}, group: 'Pod/x', nodes: ['n2', 'n3'] } },
      },
    }));
    await cluster.kubernetes.apply(...preloads);
    await until('all are ready', () =>
      names.every((name) => {
        const n2 = executor.readiness.of(`default/${name}`)?.get('n2');
        return n2?.percent === 100 && n2.pinned;
      }),
    );
    assert.equal(size, mib);
    const many = ['cachepreload', '-l', 'many=yes'];
    // kubectl would wait for one after the other.
    await cluster.kubernetes.kubectl('delete', ...many, '--wait=false');
    const left = () => cluster.kubernetes.kubectl('get', ...many, '-o', 'name');
    await until('they have gone', async () => (await left()) === '');
    assert.deepEqual((await cluster.pins()).pins, []);
    await cluster.removeDataset('hundred');
  });

  it('all nodes, also those that come later', async () => {
    const size = await cluster.dataset('all', { 'a.bin': 3 * mib });
    await cluster.preload('all', { placement: { allNodes: true } });
    assert.equal((await cluster.ready('all')).status?.nodesTotal, 3);
    cluster.origin.sentBytes = 0;
    await cluster.addNode('n4');
    const four = await cluster.expect('all', 'on four', ({ status }) => status?.nodesReady === 4);
    assert.equal(four.status?.bytesReady, 4 * size);
    assert.equal(cluster.origin.sentBytes, 0, 'from peers');
    await cluster.remove('all');
    await cluster.removeDataset('all');
  });

  it('nowhere when caches are too small, and say how many bytes are missing where', async () => {
    await cluster.addNode('small', {}, '20MiB');
    const size = await cluster.dataset('large', { 'a.bin': 30 * mib });
    await cluster.preload('large', { placement: { nodeNames: ['n1', 'small'] } });
    // An agent of a busy machine may have nothing to report for a moment.
    const partial = await cluster.expect('large', 'on n1, and waiting on small', ({ status }) => {
      return status?.nodesReady === 1 && status.nodes?.find(({ name }) => name === 'small')?.phase !== 'Gone';
    });
    const space = conditionOf(partial, 'InsufficientSpace');
    assert.equal(space.status, 'True');
    const missing = Number(/^the caches lack (\d+) bytes on small;/.exec(space.message)?.[1]);
    assert.ok(missing >= size - 20 * mib && missing < size, space.message);
    const row = partial.status?.nodes?.find(({ name }) => name === 'small');
    assert.deepEqual([row?.phase, row?.bytesReady], ['Pending', 0]);
    await cluster.remove('large');
    await cluster.removeDataset('large');
  });
});

/** JSON objects that stand one after the other. */
function jsonObjects(text: string): unknown[] {
  return text
    .trim()
    .split(/\n(?=\{)/)
    .flatMap((one) => {
      try {
        return [JSON.parse(one)];
      } catch {
        return [];
      }
    });
}
