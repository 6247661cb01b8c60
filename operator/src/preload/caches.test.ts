import assert from 'node:assert/strict';
import { HearthError, silentLogger } from '@hearth/common';
import { WarmJob } from '@hearth/common/generated/hearth/v1/control.ts';
import { systemClock } from '@hearth/common/kubernetes';
import { until } from '@hearth/common/testing';
import type { ClusterStatus } from '../agents/index.ts';
import { JobTracker } from './cluster_executor.ts';
import { MeasureCache } from './measure_cache.ts';
import { PinCache } from './pin_cache.ts';
import { Retries } from './retries.ts';
import { job, manifest, now, observed, preloadObject, uid } from './testing/fixtures.ts';
import { type Wanted, wantedId, wantedOf } from './wanted.ts';

const { signal } = new AbortController();
/** Time stands, a moment after the agents' status. */
const clock = { ...systemClock, now: () => now + 1, date: () => new Date(now) };
const named = (...nodeNames: string[]) => ({ placement: { nodeNames } });

/** Agents whose answers a test gives; every call is noted. */
function scripted(answers: Record<string, (request: never) => unknown>) {
  const calls: [string, unknown][] = [];
  const call = async (name: string, request: unknown) => {
    calls.push([name, request]);
    return answers[name]?.(request as never);
  };
  return { calls, agents: { call } as never };
}

describe('retries of what failed on nodes', () => {
  it('are later with each job that fails, by node, and end with success', () => {
    const preload = preloadObject(named('a', 'b'));
    const seen = observed({ nodes: { a: {}, b: {} } });
    const wanted = wantedOf(preload, seen);
    const failed = (at: string) =>
      job(preload, seen, { a: ['Failed'], b: ['Succeeded'] }, { state: 'Failed', createdAt: at });
    const retries = new Retries();
    const key = `${wanted[0]?.id}/a`;
    const note = (at: string, later: number) => {
      retries.note(preload, [failed(at)], wanted, now + later);
      return (retries.until.get(key) ?? 0) - now;
    };
    assert.equal(note('2026-05-01T11:00:00Z', 0), 2_000);
    assert.equal(note('2026-05-01T11:00:00Z', 1_000), 2_000, 'the same job counts once');
    assert.equal(note('2026-05-01T11:00:05Z', 5_000), 9_000);
    assert.equal(retries.until.has(`${wanted[0]?.id}/b`), false);
    const good = job(preload, seen, { a: ['Succeeded'] }, { state: 'Succeeded', createdAt: '2026-05-01T11:10:00Z' });
    retries.note(preload, [good, failed('2026-05-01T11:00:05Z')], wanted, now);
    assert.equal(retries.until.size, 0, 'the newest has the last word');
  });
});

describe('pins of CachePreloads', () => {
  const wanted = wantedOf(preloadObject(named('a')), observed({}))[0] as Wanted;
  const owner = `preload/${uid}/${wanted.id}`;

  it('are read once, and then known by what was asked for', async () => {
    const { agents, calls } = scripted({
      listPins: () => ({ pins: [{ owner, node: 'a', dataset: '', manifest: '', paths: [] }] }),
      pin: () => ({ nodes: ['b'], failures: [{ node: 'c', errorCode: 'Unavailable', message: 'busy' }] }),
      releasePins: () => ({ pins: 1 }),
    });
    const ledger = new PinCache(agents, clock);
    assert.equal(ledger.of(uid), undefined);
    await Promise.all([ledger.load(signal), ledger.load(signal)]);
    await ledger.pin(uid, owner, wanted, ['b', 'c'], signal);
    assert.deepEqual([...(ledger.of(uid)?.get(owner) ?? [])], ['a', 'b']);
    assert.deepEqual([...ledger.troubles(uid)], [[`${owner}/c`, { message: 'busy', until: now + 5_000 }]]);
    await ledger.release(uid, owner, ['a'], signal);
    assert.deepEqual([...(ledger.of(uid)?.get(owner) ?? [])], ['b']);
    await ledger.releaseAll(uid, signal);
    assert.equal(ledger.of(uid)?.size, 0);
    assert.deepEqual(
      calls.map(([name]) => name),
      ['listPins', 'pin', 'releasePins', 'releasePins'],
    );
  });

  it('of many that want the same on the same nodes are asked for by one call', async () => {
    const { agents, calls } = scripted({
      listPins: () => ({ pins: [] }),
      pin: ({ nodes }: { nodes: string[] }) => ({ nodes, failures: [] }),
    });
    const ledger = new PinCache(agents, clock);
    await ledger.load(signal);
    const owners = Array.from({ length: 30 }, (_, index) => `preload/u${index}/x`);
    await Promise.all(owners.map((one, index) => ledger.pin(`u${index}`, one, wanted, ['a', 'b'], signal)));
    const pins = calls.filter(([name]) => name === 'pin').map(([, request]) => request as { moreOwners: string[] });
    assert.deepEqual([pins.length, pins[0]?.moreOwners.length], [1, 29]);
    for (const [index, one] of owners.entries()) assert.equal(ledger.of(`u${index}`)?.get(one)?.size, 2);
  });

  it('are read again after a call that may have done something', async () => {
    let broken = true;
    const { agents } = scripted({
      listPins: () => ({ pins: [] }),
      pin: () => {
        if (broken) throw new HearthError('DeadlineExceeded', 'late');
        return { nodes: ['a'], failures: [] };
      },
    });
    const ledger = new PinCache(agents, clock);
    await ledger.load(signal);
    await assert.rejects(ledger.pin(uid, owner, wanted, ['a'], signal), /late/);
    assert.equal(ledger.of(uid), undefined);
    broken = false;
    await ledger.load(signal);
    assert.equal(ledger.of(uid)?.size, 0);
  });
});

describe('a list of pins that is on its way', () => {
  const wanted = wantedOf(preloadObject(named('a')), observed({}))[0] as Wanted;
  const owner = `preload/${uid}/${wanted.id}`;

  /** The first list is reported when the test says so; `rows` is what agents have at each time. */
  function setUp(rows: Set<string>) {
    const { promise, resolve } = Promise.withResolvers<void>();
    let lists = 0;
    const { agents } = scripted({
      listPins: async () => {
        lists += 1;
        const pins = [...rows].map((node) => ({ owner, node, dataset: '', manifest: '', paths: [] }));
        if (lists === 1) await promise;
        return { pins };
      },
      pin: ({ nodes }: { nodes: string[] }) => {
        for (const node of nodes) rows.add(node);
        return { nodes, failures: [] };
      },
      releasePins: ({ nodes }: { nodes: string[] }) => {
        for (const node of nodes) rows.delete(node);
        return { pins: nodes.length };
      },
    });
    return { ledger: new PinCache(agents, clock), arrive: resolve };
  }

  it('does not hide a pin that was set meanwhile', async () => {
    const { ledger, arrive } = setUp(new Set());
    const loading = ledger.load(signal);
    await ledger.pin(uid, owner, wanted, ['a'], signal);
    arrive();
    await loading;
    assert.deepEqual([...(ledger.of(uid)?.get(owner) ?? [])], ['a']);
  });

  it('does not bring back a pin that was released meanwhile', async () => {
    const { ledger, arrive } = setUp(new Set(['a', 'b']));
    const loading = ledger.load(signal);
    await ledger.release(uid, owner, ['a'], signal);
    arrive();
    await loading;
    assert.deepEqual([...(ledger.of(uid)?.get(owner) ?? [])], ['b']);
  });
});

describe('measures of files', () => {
  it('are asked for once, and distinguish files that there are not from revisions that there are not', async () => {
    let known = false;
    const { agents, calls } = scripted({
      measureFiles: ({ paths }: { paths: string[] }) => {
        if (!known) throw new HearthError('NotFound', 'no revision');
        if (paths.includes('*.none')) throw new HearthError('NotFound', 'no file matches');
        return { files: 2n, bytes: 7n };
      },
    });
    let time = now;
    const cache = new MeasureCache(() => time);
    const ask = (paths: string[]) => cache.measure(agents, 'ns.d', manifest, paths, signal);
    assert.equal((await ask(['*.none'])).kind, 'unknown');
    known = true;
    assert.equal((await ask(['*.none'])).kind, 'unknown', 'not asked again at once');
    time += 6_000;
    assert.equal((await ask(['*.none'])).kind, 'none');
    assert.deepEqual(await ask([]), { kind: 'files', files: 2n, bytes: 7n });
    const before = calls.length;
    await ask([]);
    await ask(['*.none']);
    assert.equal(calls.length, before);
    assert.notEqual(wantedId('ns.d', manifest, []), wantedId('ns.d', manifest, ['a']));
  });
});

describe('jobs of CachePreloads', () => {
  const name = `preload-${uid}-aaaaaaaaaa-bbbbbbbbbb-cccccccccc`;
  const message = (state: string, ready: bigint) => WarmJob.fromPartial({ name, state, bytesReady: ready });

  function setUp(stream: () => AsyncIterable<WarmJob>) {
    const told: string[] = [];
    const jobs = new Map([
      [name, message('Running', 0n)],
      ['other', WarmJob.fromPartial({ name: 'other', state: 'Running' })],
    ]);
    const status = { jobs, receivedAt: now } as unknown as ClusterStatus;
    const cache = new JobTracker({
      agents: { status, stream: stream as never },
      changed: (job) => told.push(job.state),
      logger: silentLogger,
      clock,
    });
    return { cache, told };
  }

  it('that run are followed, and what a stream reports is newer than the status', async () => {
    const { cache, told } = setUp(async function* () {
      yield message('Running', 5n);
      yield message('Succeeded', 9n);
    });
    assert.deepEqual(
      cache.of(uid).map(({ name: one }) => one),
      [name],
    );
    await until('its stream has ended', () => told.length === 2);
    assert.deepEqual(told, ['Running', 'Succeeded']);
    assert.deepEqual(
      cache.of(uid).map(({ state, bytesReady }) => [state, bytesReady]),
      [['Succeeded', 9n]],
    );
    cache.close();
  });

  it('are followed again when a stream breaks', async () => {
    let streams = 0;
    const { cache, told } = setUp(async function* () {
      streams += 1;
      if (streams === 1) throw new HearthError('Unavailable', 'gone');
      yield message('Succeeded', 9n);
    });
    cache.of(uid);
    await until('it is followed', () => told.length === 1);
    assert.deepEqual([streams, told], [2, ['Succeeded']]);
    cache.close();
  });
});
