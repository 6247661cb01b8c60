import assert from 'node:assert/strict';
import { elapse, until } from '@hearth/common/testing';
import type { Timings } from '../context.ts';
import { TestCluster } from '../testing/cluster.ts';
import { directorySource, fileRow } from '../testing/fake_origin.ts';
import type { SeenJob, WarmRequest } from './jobs.ts';

const rows = Array.from({ length: 8 }, (_, index) => fileRow(`part-${index}.bin`, 1_000_000n));
const total = 8_000_000n;
const soon = () => AbortSignal.timeout(300_000);
const warm = (request: Partial<WarmRequest> = {}): WarmRequest => ({
  dataset: 'd',
  manifest: '',
  paths: [],
  nodes: [],
  replicas: 0,
  pin: false,
  pinOwner: '',
  priority: 0,
  rateLimit: 0n,
  peerRateLimit: 0n,
  deadlineSeconds: 0,
  verify: 'checksum',
  readyWhen: 'stored',
  name: '',
  ensure: false,
  ...request,
});

describe('warm jobs', () => {
  let cluster: TestCluster;
  async function start(names = ['a', 'b', 'c'], timings: Partial<Timings> = {}) {
    cluster = await TestCluster.start(names, rows, timings);
    const request = { source: directorySource, include: [], exclude: [] };
    await cluster.agent('a').resolution.add('d', request, () => {}, soon());
  }
  afterEach(async () => cluster.close());

  async function ended(node: string, job: string): Promise<SeenJob> {
    let last: SeenJob | undefined;
    for await (const seen of cluster.agent(node).warmJobs.watch(job, soon())) last = seen;
    assert.ok(last !== undefined);
    return last;
  }

  it('bring a dataset to all agents and read the origin once', async () => {
    await start();
    const created = await cluster.agent('b').warmJobs.create(warm({ name: 'j' }), soon());
    assert.deepEqual(created.job.nodes, ['a', 'b', 'c']);
    const seen: string[] = [];
    for await (const { view } of cluster.agent('c').warmJobs.watch('j', soon())) seen.push(view.state);
    assert.equal(seen.at(-1), 'Succeeded');
    const { view } = await cluster.agent('a').warmJobs.get('j');
    assert.deepEqual([view.bytesReady, view.bytesTotal], [3n * total, 3n * total]);
    for (const node of view.nodes) assert.deepEqual([node.filesReady, node.filesVerified], [8, 8]);
    assert.equal(cluster.fabric.totalOriginBytes, total);
    await until(() => cluster.agent('a').warmTables.jobsMirror.get('j')?.end?.state === 'Succeeded');
  });

  it('warm chosen files on chosen agents only', async () => {
    await start();
    await cluster
      .agent('a')
      .warmJobs.create(warm({ name: 'j', paths: ['part-1.*', 'part-2.*'], nodes: ['b'] }), soon());
    const { view } = await ended('a', 'j');
    assert.deepEqual([view.state, view.bytesTotal, view.nodes.length], ['Succeeded', 2_000_000n, 1]);
    assert.equal(cluster.engine('a').disk.resident.size, 0);
    assert.equal(cluster.engine('b').disk.resident.size, 2);
  });

  it('choose replicas by resident bytes', async () => {
    await start();
    await cluster.agent('a').warmJobs.create(warm({ name: 'first', nodes: ['c'] }), soon());
    await ended('a', 'first');
    await until(() => (cluster.agent('c').statistics.current?.residency.d?.residentBytes ?? 0n) === total);
    const { job } = await cluster.agent('a').warmJobs.create(warm({ name: 'second', replicas: 1 }), soon());
    assert.deepEqual(job.nodes, ['c']);
    await assert.rejects(cluster.agent('a').warmJobs.create(warm({ replicas: 4 }), soon()), { code: 'Unavailable' });
  });

  it('refuse invalid requests', async () => {
    await start(['a']);
    const { warmJobs } = cluster.agent('a');
    await assert.rejects(warmJobs.create(warm({ dataset: 'none' }), soon()), {
      code: 'NotFound',
      message: /no dataset none/,
    });
    await assert.rejects(warmJobs.create(warm({ paths: ['*.none'] }), soon()), {
      code: 'NotFound',
      message: /no file of dataset d matches/,
    });
    await assert.rejects(warmJobs.create(warm({ nodes: ['x'] }), soon()), { code: 'NotFound', message: /no agent x/ });
    await assert.rejects(warmJobs.create(warm({ name: 'a b' }), soon()), { code: 'InvalidArgument' });
    await warmJobs.create(warm({ name: 'j' }), soon());
    await assert.rejects(warmJobs.create(warm({ name: 'j' }), soon()), { code: 'AlreadyExists' });
    await assert.rejects(warmJobs.get('none'), { code: 'NotFound', message: /no warm job none/ });
  });

  it('keep the sum of rates within the limit, and redistribute unused shares', async () => {
    await start();
    await cluster.agent('a').warmJobs.create(warm({ name: 'first', nodes: ['c'], paths: ['part-[0-5].bin'] }), soon());
    await ended('a', 'first');
    const limit = 400_000n; // for so long that a busy machine divides it again meanwhile
    const began = performance.now();
    await cluster.agent('a').warmJobs.create(warm({ name: 'j', rateLimit: limit }), soon());
    const { view } = await ended('a', 'j');
    assert.equal(view.state, 'Succeeded');
    assert.ok(performance.now() - began > 3_300, 'two megabytes at 0.4 a second');
    const all = ['a', 'b', 'c'].flatMap((name) => cluster.engine(name).rates.filter(({ job }) => job === 'j'));
    assert.ok(all.every(({ rate }) => rate > 0n && rate <= limit));
    assert.ok(
      all.some(({ rate }) => rate > limit / 3n),
      'two agents fetch, the third waits for them',
    );
  });

  it('are cancelled on all agents and release their pins', async () => {
    await start();
    cluster.fabric.bytesPerSecond = 500_000;
    await cluster.agent('a').warmJobs.create(warm({ name: 'j', pin: true }), soon());
    await until(() => ['a', 'b', 'c'].every((name) => cluster.engine(name).warms.get('j')?.running === true));
    const { manifest } = await cluster.agent('a').datasets.get('d');
    assert.ok(cluster.engine('b').pins.get(manifest)?.has('d/job:j'));
    const cancelled = await cluster.agent('c').warmJobs.cancel('j');
    assert.equal(cancelled.view.state, 'Cancelled');
    await until(() => ['a', 'b', 'c'].every((name) => !cluster.engine(name).warms.has('j')));
    await until(() =>
      ['a', 'b', 'c'].every((name) => cluster.engine(name).pins.get(manifest)?.has('d/job:j') === false),
    );
    assert.equal((await ended('a', 'j')).view.state, 'Cancelled');
    await until(() => cluster.agent('a').warmTables.jobsMirror.get('j')?.end?.state === 'Cancelled');
    assert.equal((await cluster.agent('a').warmJobs.cancel('j')).view.state, 'Cancelled');
  });

  it('say which agents wait for an origin that is away, until it answers', async () => {
    await start(['a', 'b']);
    cluster.fabric.bytesPerSecond = 500_000;
    await cluster.agent('a').warmJobs.create(warm({ name: 'j' }), soon());
    const onB = await until(() => cluster.engine('b').warms.get('j'));
    onB.progress.waitingFor = 'it answers 503';
    const message = async () => (await cluster.agent('a').warmJobs.get('j')).view.message;
    await until(async () => (await message()) === 'b: it answers 503');
    onB.progress.waitingFor = '';
    await until(async () => (await message()) === '');
    await cluster.agent('a').warmJobs.cancel('j');
  });

  it('end at their deadline', async () => {
    await start(['a', 'b']);
    cluster.fabric.bytesPerSecond = 1_000;
    // Without coordinators nobody records the end of jobs.
    for (const node of ['a', 'b']) await cluster.agent(node).coordinator.close();
    await cluster.agent('a').warmJobs.create(warm({ name: 'j', deadlineSeconds: 3_600 }), soon());
    const running = (node: string) => cluster.engine(node).warms.get('j')?.running === true;
    await until(() => running('a') && running('b'));
    await cluster.clock.advance(3_500_000);
    assert.ok(running('a') && running('b'), 'not before it');
    await cluster.clock.advance(100_000);
    const { view } = await ended('b', 'j');
    assert.deepEqual([view.state, view.errorCode], ['Failed', 'DeadlineExceeded']);
    await until(() => !cluster.engine('a').warms.has('j') && !cluster.engine('b').warms.has('j'));
  });

  it('pin their files, also after a restart', async () => {
    await start(['a']);
    await cluster.agent('a').warmJobs.create(warm({ name: 'j', pin: true }), soon());
    await ended('a', 'j');
    await cluster.remove('a');
    await cluster.add('a');
    const { manifest } = await cluster.agent('a').datasets.get('d');
    await until(() => cluster.engine('a').pins.get(manifest)?.has('d/job:j') === true);
    assert.equal(cluster.engine('a').warms.size, 0, 'a part that ended is not begun again');
  });

  it('continue after a restart without fetching resident bytes again', async () => {
    await start(['a', 'b'], { goneGraceMs: 3_600_000 });
    await cluster.agent('a').warmJobs.create(warm({ name: 'first', nodes: ['b'], paths: ['part-[0-2].bin'] }), soon());
    await ended('a', 'first');
    cluster.fabric.bytesPerSecond = 1_000;
    await cluster.agent('a').warmJobs.create(warm({ name: 'j' }), soon());
    await until(() => (cluster.engine('b').warms.get('j')?.progress.bytesReady ?? 0n) > 3_000_000n);
    // A clean stop; a crashed agent's part would retry its final report for the whole grace.
    await cluster.remove('b');
    const there = [...(cluster.disks.get('b')?.resident.values() ?? [])].reduce((x, y) => x + y, 0n);
    assert.equal((await cluster.agent('a').warmJobs.get('j')).view.message, 'waiting for the absent b');
    cluster.fabric.bytesPerSecond = 1_000_000_000;
    await cluster.add('b');
    const { view } = await ended('a', 'j');
    assert.equal(view.state, 'Succeeded');
    const part = view.nodes.find((node) => node.node === 'b');
    assert.ok(there > 3_000_000n);
    assert.equal((part?.originBytes ?? 0n) + (part?.peerBytes ?? 0n), total - there);
  });

  it('fail for an agent that stays away beyond the grace', async () => {
    await start(['a', 'b'], { goneGraceMs: 3_600_000 });
    cluster.fabric.bytesPerSecond = 1_000;
    await cluster.agent('a').warmJobs.create(warm({ name: 'j' }), soon());
    await until(() => cluster.engine('b').warms.get('j')?.running === true);
    // A clean stop; a crashed agent's part would retry its final report for the whole grace.
    await cluster.remove('b');
    cluster.fabric.bytesPerSecond = 1_000_000_000;
    const { warmJobs, warmTables } = cluster.agent('a');
    await until(() => warmTables.division('j')?.goneSince.b !== undefined);
    await until(async () => (await warmJobs.get('j')).view.nodes.some((one) => one.state === 'Succeeded'));
    await cluster.clock.advance(cluster.timings.goneGraceMs - 600_000);
    assert.equal((await warmJobs.get('j')).view.state, 'Running', 'not before the grace');
    await cluster.clock.advance(600_000);
    const { view } = await ended('a', 'j');
    assert.deepEqual([view.state, view.errorCode], ['Failed', 'Unavailable']);
    assert.match(view.message, /^b: the agent has been gone for/);
    assert.equal(view.nodes.find((node) => node.node === 'a')?.state, 'Succeeded');
  });

  it('get a new coordinator when the old one dies', async () => {
    await start();
    const leaders = () =>
      [...cluster.agents].filter(([, { agent }]) => agent.coordinator.leading).map(([name]) => name);
    await until(() => leaders().length === 1);
    const { manifest } = await cluster.agent('a').datasets.get('d');
    await until(() => [...cluster.disks.values()].every((disk) => disk.manifests.has(manifest)));
    const [first = ''] = leaders();
    await cluster.remove(first, 'crash');
    await cluster.endLease(first);
    await until(() => leaders().length === 1);
    const left = [...cluster.agents.keys()];
    await cluster.agent(left[0] ?? '').warmJobs.create(warm({ name: 'j', rateLimit: 20_000_000n }), soon());
    await ended(left[1] ?? '', 'j');
    await until(() => cluster.agent(left[0] ?? '').warmTables.jobsMirror.get('j')?.end?.state === 'Succeeded');
  });

  it('fail when the origin has changed', async () => {
    await start(['a', 'b']);
    cluster.fabric.changedPath = 'part-3.bin';
    await cluster.agent('a').warmJobs.create(warm({ name: 'j' }), soon());
    const { view } = await ended('b', 'j');
    assert.deepEqual([view.state, view.errorCode], ['Failed', 'OriginChanged']);
    await until(async () => (await cluster.agent('a').datasets.get('d')).state === 'Failed');
  });

  it('are deleted when a hundred later ones have ended', async () => {
    await start(['a']);
    const { jobs } = cluster.agent('a').warmTables;
    const base = (await cluster.agent('a').warmJobs.create(warm({ name: 'j' }), soon())).job;
    const began = Date.now() - 1_000;
    const end = (at: number) => ({ state: 'Succeeded' as const, message: '', at });
    for (let index = 0; index < 103; index++)
      await jobs.put(`old-${index}`, { ...base, name: `old-${index}`, end: end(began + index) });
    await ended('a', 'j');
    await until(() => cluster.agent('a').warmTables.jobsMirror.rows().length === 100);
    const names = cluster
      .agent('a')
      .warmTables.jobsMirror.rows()
      .map((row) => row.id);
    assert.ok(names.includes('old-102') && names.includes('j') && !names.includes('old-3'));
  });

  it('report at most once in each progress interval', async () => {
    await start(['a']);
    cluster.fabric.bytesPerSecond = 8_000_000;
    let writes = 0;
    cluster.agent('a').warmTables.progressMirror.onChange((changes) => {
      writes += changes.length;
    });
    const began = performance.now();
    await cluster.agent('a').warmJobs.create(warm({ name: 'j' }), soon());
    await ended('a', 'j');
    await elapse(60, 'more would be written');
    assert.ok(writes <= (performance.now() - began) / cluster.timings.progressMs + 3, `${writes} writes`);
  });

  /** The first report that satisfies `holds`. */
  async function seen(node: string, job: string, holds: (seen: SeenJob) => boolean): Promise<SeenJob> {
    for await (const one of cluster.agent(node).warmJobs.watch(job, soon())) if (holds(one)) return one;
    return assert.fail('it never came to be');
  }

  it('can be ready in memory before the disk accepts writes, and end when stored', async () => {
    await start(['a', 'b']);
    for (const name of ['a', 'b']) cluster.engine(name).disk.stopped = true;
    const { job } = await cluster.agent('a').warmJobs.create(warm({ name: 'j', readyWhen: 'memory' }), soon());
    await cluster.agent('a').warmJobs.create(warm({ name: 'other' }), soon());
    const early = await seen('b', 'j', ({ view }) => view.ready);
    assert.equal(early.view.state, 'Running');
    assert.deepEqual([early.view.bytesInMemory, early.view.bytesReady], [2n * total, 0n]);
    assert.equal(early.view.storedAt, undefined);
    assert.ok((early.view.inMemoryAt ?? 0) >= job.createdAt);
    const other = await seen('b', 'other', ({ view }) => view.inMemoryAt !== undefined);
    assert.equal(other.view.ready, false, 'who does not ask for memory waits until all is stored');
    await cluster.clock.advance(3_000);
    for (const name of ['a', 'b']) cluster.engine(name).disk.stopped = false;
    const { view } = await ended('b', 'j');
    assert.deepEqual([view.state, view.ready, view.bytesReady], ['Succeeded', true, 2n * total]);
    assert.equal(view.inMemoryAt, early.view.inMemoryAt);
    assert.ok((view.storedAt ?? 0) >= (view.inMemoryAt ?? 0) + 3_000, `${view.inMemoryAt} ${view.storedAt}`);
    assert.equal((await ended('b', 'other')).view.ready, true);
  });

  it('lose bytes in the memory of a lost agent, and measure again', async () => {
    await start(['a', 'b'], { goneGraceMs: 60_000 });
    cluster.engine('b').disk.stopped = true;
    await cluster.agent('a').warmJobs.create(warm({ name: 'j', nodes: ['b'], readyWhen: 'memory' }), soon());
    await seen('a', 'j', ({ view }) => view.ready);
    const { disk } = cluster.engine('b');
    await cluster.remove('b');
    const gone = await seen('a', 'j', ({ view }) => !view.ready);
    assert.deepEqual([gone.view.bytesInMemory, gone.view.nodes[0]?.inMemoryAt], [0n, undefined]);
    disk.stopped = false;
    await cluster.add('b');
    const { view } = await ended('a', 'j');
    assert.deepEqual([view.state, view.bytesReady], ['Succeeded', total]);
  });

  it('pin for a named owner, whose pins stay when the job is cancelled', async () => {
    await start(['a']);
    cluster.fabric.bytesPerSecond = 1_000;
    for (const [name, pinOwner] of [
      ['own', ''],
      ['named', 'p/1'],
    ] as const) {
      await cluster.agent('a').warmJobs.create(warm({ name, pin: true, pinOwner }), soon());
    }
    const pins = () => cluster.agent('a').pins.of('d');
    await until(() => pins().length === 2);
    for (const name of ['own', 'named']) await cluster.agent('a').warmJobs.cancel(name);
    await until(() => pins().length === 1);
    assert.equal(pins()[0]?.owner, 'p/1');
  });

  it('return a running job of the name, and replace an ended one', async () => {
    await start(['a']);
    cluster.fabric.bytesPerSecond = 1_000;
    const first = await cluster.agent('a').warmJobs.create(warm({ name: 'j' }), soon());
    await assert.rejects(cluster.agent('a').warmJobs.create(warm({ name: 'j' }), soon()), { code: 'AlreadyExists' });
    const same = await cluster.agent('a').warmJobs.create(warm({ name: 'j', ensure: true }), soon());
    assert.equal(same.job.createdAt, first.job.createdAt);
    await cluster.agent('a').warmJobs.cancel('j');
    cluster.fabric.bytesPerSecond = 1_000_000_000;
    await cluster.agent('a').warmJobs.create(warm({ name: 'j', ensure: true }), soon());
    assert.equal((await ended('a', 'j')).view.state, 'Succeeded');
  });

  it('are deleted some time after their end', async () => {
    await start(['a']);
    await cluster.agent('a').warmJobs.create(warm({ name: 'j' }), soon());
    await ended('a', 'j');
    const job = () => cluster.agent('a').warmTables.jobsMirror.get('j');
    await until(() => job()?.end !== undefined);
    const ten = 600_000;
    const [present, end] = [job(), job()?.end];
    assert.ok(present !== undefined && end !== undefined);
    const older = { ...present, name: 'older', end: { ...end, at: end.at - ten } };
    await cluster.agent('a').warmTables.jobs.put('older', older);
    await cluster.clock.advance(cluster.timings.endedJobMs - ten / 2);
    await until(() => cluster.agent('a').warmTables.jobsMirror.get('older') === undefined);
    assert.notEqual(job(), undefined, 'not before the time');
    await cluster.clock.advance(ten / 2);
    await until(() => job() === undefined);
    assert.equal((await cluster.store('a').range('warm/')).entries.length, 0);
  });
});
