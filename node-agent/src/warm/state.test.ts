import assert from 'node:assert/strict';
import type { NodeState, WarmJobRecord, WarmProgressRecord } from './record.ts';
import { emptyProgress, type JobInput, type JobState, viewJob as view } from './state.ts';

const goneGraceMs = 60_000;
const viewJob = (input: Omit<JobInput, 'goneGraceMs'>) => view({ ...input, goneGraceMs });

const job: WarmJobRecord = {
  name: 'j',
  dataset: 'd',
  manifest: 'm',
  paths: [],
  nodes: ['a', 'b'],
  pin: false,
  pinOwner: '',
  priority: 0,
  rateLimit: 0n,
  peerRateLimit: 0n,
  createdAt: 0,
  verify: 'checksum',
  readyWhen: 'stored',
};
const both = new Set(['a', 'b']);

function report(states: Partial<Record<string, NodeState>>): Map<string, WarmProgressRecord> {
  return new Map(
    Object.entries(states).map(([node, state]) => [
      node,
      { ...emptyProgress(job, node), state: state ?? 'Pending', bytesTotal: 10n, bytesReady: 4n, bytesPerSecond: 3n },
    ]),
  );
}

describe('state of a warm job', () => {
  const cases: [a: NodeState | undefined, b: NodeState | undefined, state: JobState][] = [
    [undefined, undefined, 'Pending'],
    ['Pending', undefined, 'Pending'],
    ['Running', undefined, 'Running'],
    ['Running', 'Verifying', 'Running'],
    ['Verifying', 'Pending', 'Verifying'],
    ['Verifying', 'Succeeded', 'Verifying'],
    ['Succeeded', undefined, 'Running'],
    ['Succeeded', 'Succeeded', 'Succeeded'],
    ['Failed', 'Running', 'Running'],
    ['Failed', 'Succeeded', 'Failed'],
    ['Failed', 'Cancelled', 'Failed'],
    ['Cancelled', 'Succeeded', 'Cancelled'],
  ];
  for (const [a, b, state] of cases) {
    it(`is ${state} for ${a ?? 'no report'} and ${b ?? 'no report'}`, () => {
      const progress = report({ ...(a ? { a } : {}), ...(b ? { b } : {}) });
      assert.equal(viewJob({ job, progress, division: undefined, members: both, now: 1 }).state, state);
    });
  }

  it('sums bytes, and the speed of running agents', () => {
    const seen = viewJob({
      job,
      progress: report({ a: 'Running', b: 'Succeeded' }),
      division: undefined,
      members: both,
      now: 1,
    });
    assert.deepEqual([seen.bytesTotal, seen.bytesReady, seen.bytesPerSecond], [20n, 8n, 3n]);
  });

  it('is cancelled by its record at once', () => {
    const seen = viewJob({
      job: { ...job, cancelledAt: 5 },
      progress: report({ a: 'Running' }),
      division: undefined,
      members: both,
      now: 6,
    });
    assert.equal(seen.state, 'Cancelled');
  });

  it('fails at the deadline unless all agents have finished', () => {
    const late = { ...job, deadlineAt: 100 };
    const at = (now: number, a: NodeState) =>
      viewJob({ job: late, progress: report({ a, b: 'Succeeded' }), division: undefined, members: both, now });
    assert.equal(at(99, 'Running').state, 'Running');
    assert.equal(at(100, 'Running').errorCode, 'DeadlineExceeded');
    assert.match(at(100, 'Running').message, /1 of 2 agents had finished/);
    assert.equal(at(100, 'Succeeded').state, 'Succeeded');
  });

  it('reports an absent agent and fails it after the grace', () => {
    const division = { job: 'j', shares: {}, goneSince: { b: 1000 } };
    const at = (now: number, members: Set<string>) =>
      viewJob({ job, progress: report({ a: 'Succeeded', b: 'Running' }), division, members, now });
    const soon = at(2000, new Set(['a']));
    assert.equal(soon.state, 'Running');
    assert.equal(soon.message, 'waiting for the absent b');
    assert.ok(soon.nodes[1]?.gone);
    const later = at(1000 + goneGraceMs, new Set(['a']));
    assert.equal(later.state, 'Failed');
    assert.equal(later.errorCode, 'Unavailable');
    assert.match(later.message, /b: the agent has been gone for 60 s/);
    assert.equal(at(1000 + goneGraceMs, both).state, 'Running');
  });

  describe('with readyWhen memory', () => {
    const memory = { ...job, readyWhen: 'memory' as const };
    type Part = Partial<WarmProgressRecord>;
    const at = (a: Part, b: Part, members = both, asked: WarmJobRecord = memory) => {
      const progress = report({ a: 'Running', b: 'Running' });
      for (const [node, changes] of Object.entries({ a, b })) {
        progress.set(node, { ...(progress.get(node) as WarmProgressRecord), bytesInMemory: 10n, ...changes });
      }
      return viewJob({ job: asked, progress, division: undefined, members, now: 1 });
    };
    const there = { inMemoryAt: 5 };

    it('is ready when all bytes are in memory on all nodes', () => {
      assert.equal(at(there, {}).ready, false);
      const all = at(there, { inMemoryAt: 7 });
      assert.deepEqual([all.ready, all.state, all.inMemoryAt, all.storedAt], [true, 'Running', 7, undefined]);
      assert.deepEqual([all.bytesInMemory, all.bytesReady, all.message], [20n, 8n, '']);
      assert.equal(at(there, there, both, job).ready, false, 'who asks for nothing waits until it is stored');
    });

    it('ignores failed parts and the memory of absent agents', () => {
      assert.equal(at(there, { state: 'Failed', message: 'why' }).ready, false);
      const away = at(there, { inMemoryAt: 7 }, new Set(['a']));
      assert.deepEqual([away.ready, away.bytesInMemory], [false, 14n]);
    });

    it('waits for agents of the previous release to store everything, and says so', () => {
      const old = { bytesInMemory: undefined };
      const waiting = at(there, old);
      assert.deepEqual([waiting.ready, waiting.bytesInMemory], [false, 14n]);
      assert.match(waiting.message, /^b is ready only when its bytes are stored/);
      const stored = at(there, { ...old, state: 'Succeeded', bytesReady: 10n });
      assert.deepEqual([stored.ready, stored.state, stored.message], [true, 'Running', '']);
      assert.equal(at(there, old, both, job).message, '', 'it is of no matter to others');
    });
  });

  it('keeps its final state', () => {
    const ended = { ...job, end: { state: 'Failed' as const, message: 'why', errorCode: 'Corrupt' as const, at: 9 } };
    const seen = viewJob({
      job: ended,
      progress: report({ a: 'Succeeded', b: 'Succeeded' }),
      division: undefined,
      members: both,
      now: 99,
    });
    assert.deepEqual([seen.state, seen.message, seen.errorCode], ['Failed', 'why', 'Corrupt']);
  });
});
