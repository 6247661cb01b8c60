import assert from 'node:assert/strict';
import type { CachePreload, CachePreloadStatus } from '@hearth/common/resources';
import { retryKey } from './observation.ts';
import { readinessOf, statusOf } from './status.ts';
import { datasetView, job, manifest, now, observed, preloadObject, type Scene, size } from './testing/fixtures.ts';
import { wantedId } from './wanted.ts';

const named = (...nodeNames: string[]) => ({ placement: { nodeNames } });

function statusFor(preload: CachePreload, scene: Scene, parts?: Parameters<typeof job>[2], changes = {}) {
  const seen = observed(scene);
  const jobs = parts === undefined ? [] : [job(preload, seen, parts, changes)];
  return statusOf(preload, { ...seen, jobs });
}

function condition(
  { conditions }: { conditions: { type: string; status: string; reason: string; message: string }[] },
  type: string,
) {
  const found = conditions.find((one) => one.type === type);
  return found && [found.status, found.reason];
}

describe('status of a CachePreload', () => {
  it('shows bytes, percent, rate and time left, and a row a node', () => {
    const status = statusFor(
      preloadObject(named('a', 'b')),
      { nodes: { a: {}, b: {} }, pinned: ['a', 'b'] },
      { a: ['Running', 250], b: ['Running', 500] },
      { bytesPerSecond: 100n },
    );
    const { phase, bytesTotal, bytesReady, percent, bytesPerSecond, secondsLeft, nodesTotal, nodesReady } = status;
    assert.deepEqual(
      [phase, bytesTotal, bytesReady, percent, bytesPerSecond, secondsLeft, nodesTotal, nodesReady],
      ['Warming', 2000, 750, 37, 100, 13, 2, 0],
    );
    assert.deepEqual(
      status.nodes?.map((row) => [row.name, row.phase, row.bytesReady, row.percent]),
      [
        ['a', 'Warming', 250, 25],
        ['b', 'Warming', 500, 50],
      ],
    );
    assert.equal(status.waitingFor, 'a (25 %); b (50 %)');
    assert.deepEqual(condition(status, 'Ready'), ['False', 'Warming']);
  });

  it('says in the words of the agent why nothing comes', () => {
    const why = 'the origin is away: the server answered 503';
    const status = statusFor(
      preloadObject(named('a')),
      { nodes: { a: {} }, pinned: ['a'] },
      { a: ['Running', 250, why] },
    );
    assert.equal(status.waitingFor, `a (25 %): ${why}`);
  });

  it('is Ready when everything is there and pinned, and not before', () => {
    const nodes = { a: { resident: size } };
    const unpinned = statusFor(preloadObject(named('a')), { nodes });
    assert.deepEqual([unpinned.phase, unpinned.percent], ['Pending', 100]);
    assert.deepEqual(condition(unpinned, 'Pinned'), ['False', 'Pending']);
    const ready = statusFor(preloadObject(named('a')), { nodes, pinned: ['a'] });
    assert.deepEqual([ready.phase, ready.waitingFor, ready.nodesReady], ['Ready', '', 1]);
    assert.equal(ready.completedAt, '2026-05-01T12:00:00Z');
    assert.deepEqual(condition(ready, 'Ready'), ['True', 'Ready']);
  });

  it('never goes back in bytes while it is about the same revisions', () => {
    const row = { bytesTotal: size, bytesReady: 900, bytesVerified: 0, percent: 90, originBytes: 900, peerBytes: 0 };
    const before: CachePreloadStatus = {
      revisions: [{ dataset: 'd', manifest, revision: 'r1' }],
      nodes: [{ name: 'a', phase: 'Warming', message: '', ...row }],
    };
    const scene = { nodes: { a: {} }, pinned: ['a'] };
    const again = statusFor(preloadObject(named('a'), before), scene, { a: ['Running', 100] });
    assert.equal(again.bytesReady, 900);
    const revisions = [{ dataset: 'd', manifest: 'ef'.repeat(32), revision: 'r0' }];
    const other = preloadObject({ ...named('a'), revisions: 'Every' }, { ...before, revisions });
    const next = statusFor(other, scene, { a: ['Running', 100] });
    assert.equal(next.bytesReady, 100);
  });

  it('holds its figures within a second of writing them, but not a new phase', () => {
    const preload = preloadObject(named('a'), {
      phase: 'Warming',
      bytesReady: 5,
      revisions: [{ dataset: 'd', manifest, revision: 'r1' }],
    });
    const scene = { nodes: { a: {} }, pinned: ['a'], holdMs: 300 };
    assert.equal(statusFor(preload, scene, { a: ['Running', 100] }).bytesReady, 5);
    assert.equal(statusFor(preload, scene, { a: ['Verifying', size] }).bytesReady, size);
  });

  it('holds the figures in its sentence too, but not what it waits for', () => {
    const waitingFor = 'a (5 %); b-1 (7 %)';
    const revisions = [{ dataset: 'd', manifest, revision: 'r1' }];
    const preload = preloadObject(named('a', 'b-1', 'b-2'), { phase: 'Warming', waitingFor, revisions });
    const scene = { nodes: { a: {}, 'b-1': {}, 'b-2': {} }, pinned: ['a', 'b-1', 'b-2'], holdMs: 300 };
    const sentence = (parts: Parameters<typeof job>[2]) => statusFor(preload, scene, parts).waitingFor;
    assert.equal(sentence({ a: ['Running', 100], 'b-1': ['Running', 90], 'b-2': ['Succeeded', size] }), waitingFor);
    assert.equal(
      sentence({ a: ['Running', 100], 'b-1': ['Succeeded', size], 'b-2': ['Running', 90] }),
      'a (10 %); b-2 (9 %)',
    );
  });

  it('says how many bytes are missing on which nodes', () => {
    const status = statusFor(preloadObject(named('a', 'b')), { nodes: { a: { budget: 400 }, b: {} } });
    const space = status.conditions.find(({ type }) => type === 'InsufficientSpace');
    assert.deepEqual(
      [space?.status, space?.message],
      ['True', 'the caches lack 600 bytes on a; raise their budgets, or unpin other data'],
    );
    assert.equal(status.nodes?.[0]?.message, 'the cache lacks 600 bytes; raise its budget, or unpin other data');
  });

  it('says what failed and when it is tried again, and keeps what is there', () => {
    const id = wantedId('ns.d', manifest, []);
    const retryAt = new Map([[retryKey(id, 'a'), now + 4_000]]);
    const status = statusFor(
      preloadObject(named('a')),
      { nodes: { a: {} }, pinned: ['a'], retryAt },
      { a: ['Failed', 400, 'the origin answered 503'] },
      { state: 'Failed' },
    );
    assert.equal(status.waitingFor, 'a (40 %) tries again in 4 s: the origin answered 503');
    assert.deepEqual(condition(status, 'Ready'), ['False', 'Unavailable']);
    assert.deepEqual([status.bytesReady, status.nodes?.[0]?.phase], [400, 'Failed']);
  });

  it('says what is awaited, and fails for what waiting does not mend', () => {
    const trouble = { reason: 'DatasetNotFound' as const, message: 'waits for Dataset d: there is none' };
    const missing = statusFor(preloadObject(named('a')), { datasets: [datasetView({ present: undefined, trouble })] });
    assert.deepEqual([missing.phase, missing.waitingFor], ['Pending', trouble.message]);
    const measures = new Map([[wantedId('ns.d', manifest, []), { kind: 'none' as const, message: 'no file matches' }]]);
    const none = statusFor(preloadObject(named('a')), { nodes: { a: {} }, measures });
    assert.deepEqual([none.phase, condition(none, 'Ready')], ['Failed', ['False', 'NoFilesMatch']]);
    const several = statusFor(preloadObject(named('a')), { nodes: { a: {} }, clusters: ['x', 'y'] });
    assert.deepEqual([several.phase, condition(several, 'Ready')], ['Failed', ['False', 'ClustersDiffer']]);
    const late = statusFor(preloadObject({ ...named('a'), deadline: '10s' }), { nodes: { a: {} } });
    assert.deepEqual([late.phase, condition(late, 'DeadlineMet')], ['Failed', ['False', 'DeadlineExceeded']]);
  });

  it('keeps what was written while no agent answers', () => {
    const preload = preloadObject(named('a'), { phase: 'Ready', bytesReady: size, nodesReady: 1 });
    const status = statusOf(preload, { ...observed({}), agents: undefined, pins: undefined });
    assert.deepEqual([status.phase, status.bytesReady, status.nodesReady], ['Ready', size, 1]);
    assert.deepEqual(condition(status, 'Ready'), ['False', 'AgentsUnavailable']);
  });

  it('lists 500 nodes, those that are not ready first, and counts all', () => {
    const names = Array.from({ length: 600 }, (_, index) => `n${String(index).padStart(3, '0')}`);
    const nodes = Object.fromEntries(names.map((name, index) => [name, { resident: index < 300 ? size : 0 }]));
    const status = statusFor(preloadObject(named(...names)), { nodes, pinned: names });
    assert.deepEqual([status.nodes?.length, status.nodesTotal, status.nodesReady], [500, 600, 300]);
    assert.equal(status.nodes?.[0]?.name, 'n300');
    assert.equal(status.bytesReady, 300 * size);
  });
});

describe('memory in the status of a CachePreload', () => {
  const asked = '2026-05-01T11:59:30.000Z';
  const there = {
    bytesInMemory: BigInt(size),
    inMemoryAt: '2026-05-01T11:59:33.200Z',
  } as const;
  const early = preloadObject({ ...named('a', 'b'), readyWhen: 'Memory' });
  const scene = { nodes: { a: {}, b: {} }, pinned: ['a', 'b'] };
  const created = { createdAt: asked };

  it('is Ready in memory for those who ask for it, and its phase and percent are about what is stored', () => {
    const parts = { a: ['Running', 250, '', there], b: ['Verifying', size, '', there] } satisfies Parameters<
      typeof job
    >[2];
    const status = statusFor(early, scene, parts, created);
    assert.deepEqual(condition(status, 'Ready'), ['True', 'InMemory']);
    assert.deepEqual(condition(status, 'InMemory'), ['True', 'InMemory']);
    assert.deepEqual(condition(status, 'Stored'), ['False', 'Pending']);
    const { phase, percent, bytesInMemory, bytesReady, inMemoryAt, completedAt } = status;
    assert.deepEqual(
      [phase, percent, bytesInMemory, bytesReady, inMemoryAt, completedAt],
      ['Warming', 62, 2000, 1250, '2026-05-01T12:00:00Z', undefined],
    );
    const [row] = status.nodes ?? [];
    assert.deepEqual(
      [row?.name, row?.bytesInMemory, row?.inMemoryAt, row?.secondsToMemory, row?.storedAt, row?.secondsToStored],
      ['a', size, '2026-05-01T11:59:33Z', 3.2, undefined, undefined],
    );
    const other = statusFor(preloadObject(named('a', 'b')), scene, parts, created);
    assert.deepEqual(condition(other, 'Ready'), ['False', 'Warming'], 'others wait until it is stored');
    assert.deepEqual(condition(other, 'InMemory'), ['True', 'InMemory']);
  });

  it('is not while one node lacks bytes, is not pinned, or failed', () => {
    const cases: [string, Scene, Parameters<typeof job>[2]][] = [
      ['lacks bytes', scene, { a: ['Running', 0, '', there], b: ['Running', 0, '', { bytesInMemory: 400n }] }],
      ['failed', scene, { a: ['Running', 0, '', there], b: ['Failed', 0, 'why', there] }],
      ['not pinned', { ...scene, pinned: ['a'] }, { a: ['Running', 0, '', there], b: ['Running', 0, '', there] }],
    ];
    for (const [why, seen, parts] of cases) {
      assert.equal(condition(statusFor(early, seen, parts, created), 'Ready')?.[0], 'False', why);
    }
    const [, , parts] = cases[0] as (typeof cases)[0];
    const lacking = statusFor(early, scene, parts, created);
    const found = lacking.conditions.find(({ type }) => type === 'InMemory');
    assert.deepEqual([found?.status, found?.message], ['False', 'some bytes are not in memory yet on b']);
    assert.equal(lacking.waitingFor, 'a (0 %, 100 % in memory); b (0 %, 40 % in memory)');
    const gone = statusFor(
      early,
      { ...scene, nodes: { a: {}, b: { agent: false } } },
      { a: ['Running', 0, '', there], b: ['Running', 0, '', there] },
    );
    assert.deepEqual(condition(gone, 'Ready'), ['False', 'Warming'], 'what an agent holds that is away cannot be read');
  });

  it('says when it was stored too, and keeps both times when agents have forgotten the job', () => {
    const stored = { ...there, storedAt: '2026-05-01T11:59:37.900Z' };
    const ended = { ...created, state: 'Succeeded' };
    const parts = { a: ['Succeeded', size, '', stored], b: ['Succeeded', size, '', stored] } satisfies Parameters<
      typeof job
    >[2];
    const done = statusFor(early, scene, parts, ended);
    assert.deepEqual(condition(done, 'Ready'), ['True', 'Ready']);
    assert.deepEqual(condition(done, 'Stored'), ['True', 'Stored']);
    const times = (status: typeof done) =>
      (status.nodes ?? []).map((row) => [row.inMemoryAt, row.secondsToMemory, row.storedAt, row.secondsToStored]);
    const both = ['2026-05-01T11:59:33Z', 3.2, '2026-05-01T11:59:37Z', 7.9];
    assert.deepEqual(times(done), [both, both]);
    const { conditions: _, ...written } = done;
    const later = preloadObject({ ...named('a', 'b'), readyWhen: 'Memory' }, written as CachePreloadStatus);
    const whole = { nodes: { a: { resident: size }, b: { resident: size } }, pinned: ['a', 'b'] };
    assert.deepEqual(times(statusFor(later, whole)), [both, both]);
  });

  it('says whose agent does not report what is in memory: it counts when it is stored', () => {
    const nodes = { a: {}, b: { features: [] } };
    const parts = { a: ['Running', 0, '', there], b: ['Running', 700] } satisfies Parameters<typeof job>[2];
    const status = statusFor(early, { ...scene, nodes }, parts, created);
    assert.deepEqual(condition(status, 'Ready'), ['False', 'Warming']);
    const row = status.nodes?.find(({ name }) => name === 'b');
    assert.equal(row?.bytesInMemory, 700);
    assert.match(row?.message ?? '', /^counts stored bytes alone, as the release of its agent does not report/);
    const plain = statusFor(preloadObject(named('a', 'b')), { ...scene, nodes }, parts, created);
    assert.equal(plain.nodes?.find(({ name }) => name === 'b')?.message, '');
  });

  it('says which limits a node has that is warmed', () => {
    const nodes = { a: { limits: 'origins: 1GiB/s' }, b: {} };
    const parts = { a: ['Running', 5], b: ['Running', 7] } satisfies Parameters<typeof job>[2];
    const status = statusFor(preloadObject(named('a', 'b')), { ...scene, nodes }, parts, created);
    assert.deepEqual(
      status.nodes?.map(({ name, message }) => [name, message]),
      [
        ['a', 'the limits of the node apply (origins: 1GiB/s)'],
        ['b', ''],
      ],
    );
  });

  it('is written at once, though the figures of a moment ago would stay', () => {
    const revisions = [{ dataset: 'd', manifest, revision: 'r1' }];
    const before = preloadObject(
      { ...named('a'), readyWhen: 'Memory' },
      { phase: 'Warming', bytesReady: 5, revisions },
    );
    const seen = { nodes: { a: {} }, pinned: ['a'], holdMs: 300 };
    assert.equal(statusFor(before, seen, { a: ['Running', 9] }).inMemoryAt, undefined);
    assert.equal(statusFor(before, seen, { a: ['Running', 9, '', there] }).inMemoryAt, '2026-05-01T12:00:00Z');
  });

  it('is what gates that wait for memory go by', () => {
    const seen = observed(scene);
    const running = job(early, seen, {
      a: ['Running', 250, '', there],
      b: ['Running', 0, '', { bytesInMemory: 999n }],
    });
    assert.deepEqual(
      [...(readinessOf(early, { ...seen, jobs: [running] }) ?? [])],
      [
        ['a', { percent: 25, memoryPercent: 100, pinned: true }],
        ['b', { percent: 0, memoryPercent: 99, pinned: true }],
      ],
    );
  });
});

describe('readiness for the gates', () => {
  it('is 100 percent only of what is there and verified, and shows pins by themselves', () => {
    const preload = preloadObject(named('a', 'b', 'c', 'd'));
    const nodes = { a: { resident: size }, b: {}, c: {}, d: { agent: false } };
    const seen = observed({ nodes, pinned: ['b'] });
    const running = job(preload, seen, { b: ['Verifying', size], c: ['Running', 421] });
    assert.deepEqual(
      [...(readinessOf(preload, { ...seen, jobs: [running] }) ?? [])],
      [
        ['a', { percent: 100, memoryPercent: 100, pinned: false }],
        ['b', { percent: 99, memoryPercent: 99, pinned: true }],
        ['c', { percent: 42, memoryPercent: 42, pinned: false }],
        ['d', { percent: 0, memoryPercent: 0, pinned: false }],
      ],
    );
    assert.equal(readinessOf(preload, { ...seen, pins: undefined }), undefined);
  });
});
