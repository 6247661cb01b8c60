import assert from 'node:assert/strict';
import { type CachePreload, type CachePreloadStatus, gate, type PreloadedNode } from '@hearth/common/resources';
import { type ObservedPreload, retryKey } from './observation.ts';
import { type PreloadAction, plan, requeueAfterMs } from './plan.ts';
import { statusOf } from './status.ts';
import { datasetView, job, manifest, now, observed, preloadObject, type Scene, size, uid } from './testing/fixtures.ts';
import { wantedId } from './wanted.ts';

const id = wantedId('ns.d', manifest, []);
const owner = `preload/${uid}/${id}`;

/** The plan in a few words. */
function words(preload: CachePreload, scene: Scene): string[] {
  return plan(preload, observed(scene)).map(wordOf);
}

function wordOf(action: PreloadAction): string {
  switch (action.kind) {
    case 'pin':
      return `pin ${action.nodes}`;
    case 'startJob':
      return `start ${action.request.nodes}`;
    case 'cancelJob':
      return 'cancel';
    case 'releasePins':
      return `release ${action.nodes}`;
    case 'event':
      return action.reason;
  }
}

const named = (...nodeNames: string[]) => ({ placement: { nodeNames } });
const three = { a: {}, b: {}, c: {} };
const bound: CachePreloadStatus = { revisions: [{ dataset: 'd', manifest, revision: 'r1' }] };

describe('plan of a CachePreload', () => {
  it('pins first, and then warms all of its nodes by one job', () => {
    assert.deepEqual(words(preloadObject(named('a', 'b')), { nodes: three }), ['pin a,b', 'start a,b']);
  });

  it('names a job by what it does: the same after a restart, another one for other nodes, rates and files', () => {
    const name = (spec: object) => {
      const [, start] = plan(preloadObject({ ...named('a', 'b'), ...spec }), observed({ nodes: three }));
      return start?.kind === 'startJob' ? start.request.name : '';
    };
    assert.equal(name({}), name({ placement: { nodeNames: ['b', 'a'] } }));
    const others = [{ priority: 5 }, { verify: 'SourceDigest' }, { rateLimit: { origin: '1Mi' } }, named('a')];
    assert.equal(new Set([{}, ...others].map(name)).size, 5);
    assert.ok(name({}).length <= 128);
  });

  it('asks agents for rates, verification and priority in their own terms', () => {
    const spec = { rateLimit: { origin: '1Mi', network: '2Mi' }, verify: 'SourceDigest', priority: 900 } as const;
    const [, start] = plan(preloadObject({ ...named('a'), ...spec }), observed({ nodes: three }));
    assert.ok(start?.kind === 'startJob');
    const { rateLimit, peerRateLimit, verify, priority, ensure } = start.request;
    assert.deepEqual([rateLimit, peerRateLimit, verify, priority, ensure], [1n << 20n, 2n << 20n, 'digest', 100, true]);
  });

  it('says to agents when it counts as ready, by the same job: nothing is brought again when that changes', () => {
    const request = (readyWhen: 'Stored' | 'Memory') => {
      const [, start] = plan(preloadObject({ ...named('a'), readyWhen }), observed({ nodes: three }));
      assert.ok(start?.kind === 'startJob');
      return start.request;
    };
    assert.deepEqual([request('Stored').readyWhen, request('Memory').readyWhen], ['stored', 'memory']);
    assert.equal(request('Stored').name, request('Memory').name);
  });

  it('needs only pins where the bytes are', () => {
    const nodes = { a: { resident: size }, b: { resident: size } };
    assert.deepEqual(words(preloadObject(named('a', 'b')), { nodes }), ['pin a,b']);
    assert.deepEqual(words(preloadObject(named('a', 'b')), { nodes, pinned: ['a', 'b'] }), []);
    assert.deepEqual(words(preloadObject({ ...named('a', 'b'), pin: false }), { nodes }), []);
    const digest = preloadObject({ ...named('a'), verify: 'SourceDigest' });
    assert.deepEqual(words(digest, { nodes, pinned: ['a'] }), ['start a'], 'the digest is asked for');
  });

  it('does nothing while a job runs for all', () => {
    const preload = preloadObject(named('a', 'b'));
    const scene = { nodes: three, pinned: ['a', 'b'] };
    const running = job(preload, observed(scene), { a: ['Succeeded', size], b: ['Running', 10] });
    assert.deepEqual(words(preload, { ...scene, jobs: [running] }), []);
  });

  it('begins another job for nodes that came later, and lets the first go on', () => {
    const first = preloadObject(named('a', 'b'));
    const scene = { nodes: three, pinned: ['a', 'b', 'c'] };
    const running = job(first, observed(scene), { a: ['Running', 10], b: ['Running', 10] });
    assert.deepEqual(words(preloadObject(named('a', 'b', 'c')), { ...scene, jobs: [running] }), ['start c']);
  });

  it('has one job at a time when the rate from the origin is limited', () => {
    const rateLimit = { origin: '1Mi' };
    const first = preloadObject({ ...named('a', 'b'), rateLimit });
    const scene = { nodes: three, pinned: ['a', 'b', 'c'] };
    const running = job(first, observed(scene), { a: ['Running', 10], b: ['Running', 10] });
    const preload = preloadObject({ ...named('a', 'b', 'c'), rateLimit });
    assert.deepEqual(words(preload, { ...scene, jobs: [running] }), ['start a,b,c', 'cancel']);
  });

  it('replaces a job with a node that is no longer wanted, after the new one exists', () => {
    const first = preloadObject(named('a', 'b'));
    const scene = { nodes: three, pinned: ['a', 'b'] };
    const running = job(first, observed(scene), { a: ['Running', 10], b: ['Running', 10] });
    assert.deepEqual(words(preloadObject(named('a')), { ...scene, jobs: [running] }), [
      'start a',
      'cancel',
      'release b',
    ]);
  });

  it('leaves what failed alone until its time has come', () => {
    const preload = preloadObject(named('a', 'b'));
    const scene = { nodes: three, pinned: ['a', 'b'] };
    const failed = job(preload, observed(scene), { a: ['Failed', 10, 'no origin'], b: ['Running', 10] });
    const retryAt = new Map([[retryKey(id, 'a'), now + 4_000]]);
    assert.deepEqual(words(preload, { ...scene, jobs: [failed], retryAt }), []);
    assert.equal(requeueAfterMs(preload, observed({ ...scene, jobs: [failed], retryAt })), 4_000);
    assert.deepEqual(words(preload, { ...scene, jobs: [failed] }), ['start a'], 'b goes on with the first');
  });

  it('brings again what was lost, but not what was not pinned', () => {
    const scene = { nodes: { a: { resident: 10 } }, pinned: ['a'] };
    const jobOf = (preload: CachePreload, endedAt: string) =>
      job(preload, observed(scene), { a: ['Succeeded', size] }, { state: 'Succeeded', endedAt });
    const preload = preloadObject(named('a'));
    const long = '2026-05-01T11:00:00Z';
    assert.deepEqual(words(preload, { ...scene, jobs: [jobOf(preload, '')] }), [], 'agents tell it a moment later');
    assert.deepEqual(words(preload, { ...scene, jobs: [jobOf(preload, '2026-05-01T11:59:50Z')] }), []);
    assert.deepEqual(words(preload, { ...scene, jobs: [jobOf(preload, long)] }), ['start a']);
    const loose = preloadObject({ ...named('a'), pin: false });
    assert.deepEqual(words(loose, { nodes: scene.nodes, jobs: [jobOf(loose, long)] }), []);
  });

  it('asks no agent that is away or has no room', () => {
    const nodes = { a: { agent: false }, b: { ready: false }, c: { budget: 10 }, d: {} };
    assert.deepEqual(words(preloadObject(named('a', 'b', 'c', 'd')), { nodes }), ['pin d', 'start d']);
  });

  it('cancels when the deadline passed, and releases when the ttl is over', () => {
    const late = preloadObject({ ...named('a'), deadline: '30s' });
    const scene = { nodes: three, pinned: ['a'] };
    const running = job(late, observed(scene), { a: ['Running', 10] });
    assert.deepEqual(words(late, { ...scene, jobs: [running] }), ['cancel']);
    const conditions = [
      {
        type: 'DeadlineMet',
        status: 'True',
        reason: 'Met',
        message: '',
        lastTransitionTime: '',
        observedGeneration: 1,
      },
    ] as never;
    const met = preloadObject({ ...named('a'), deadline: '30s' }, { ...bound, conditions });
    assert.deepEqual(words(met, { ...scene, jobs: [running] }), [], 'it was met once');
    const old = preloadObject({ ...named('a'), ttl: '1m' }, { ...bound, completedAt: '2026-05-01T11:58:00Z' });
    assert.deepEqual(words(old, { nodes: { a: { resident: size } }, pinned: ['a'] }), ['release a']);
  });

  it('keeps what was found of a plan for pods when it changes in its nodes', () => {
    const gatedPods = { gate: gate.parse({}), group: 'Pod/x', nodes: ['a', 'b'] };
    const row = (name: string): PreloadedNode => ({
      ...{ name, phase: 'Ready', bytesTotal: size, bytesReady: size, bytesVerified: size, percent: 100 },
      ...{ originBytes: 700, peerBytes: 0, message: '' },
    });
    const completedAt = '2026-05-01T11:59:30Z';
    const preload = preloadObject({ placement: { gatedPods } }, { ...bound, completedAt, nodes: [row('a'), row('b')] });
    // Agents report nothing of a revision that is not the present one.
    const present = { manifest: 'cd'.repeat(32), revision: 'r2' };
    const scene = observed({ nodes: three, pinned: ['a', 'b'], datasets: [datasetView({ present })] });
    const withoutReport = { ...scene, agents: { ...scene.agents, datasets: new Map() } } as ObservedPreload;
    preload.metadata.generation = 2;
    assert.deepEqual(plan(preload, withoutReport), []);
    const { nodes, completedAt: kept } = statusOf(preload, withoutReport);
    assert.equal(kept, completedAt);
    assert.deepEqual(
      nodes?.map(({ phase, originBytes }) => [phase, originBytes]),
      [
        ['Ready', 700],
        ['Ready', 700],
      ],
    );
  });

  it('keeps the pins of the old revision until the new one is there', () => {
    const next = 'cd'.repeat(32);
    const preload = preloadObject({ ...named('a'), revisions: 'Every' }, bound);
    const present = { manifest: next, revision: 'r2' };
    const newId = wantedId('ns.d', next, []);
    const measures = new Map([[newId, { kind: 'files' as const, files: 1n, bytes: BigInt(size) }]]);
    const base = { nodes: three, datasets: [datasetView({ present })], measures };
    assert.deepEqual(words(preload, { ...base, pinned: ['a'] }), ['pin a', 'start a', 'NewRevision']);
    const pins = new Map([
      [owner, new Set(['a'])],
      [`preload/${uid}/${newId}`, new Set(['a'])],
    ]);
    const scene = { ...observed(base), pins };
    const done = job(preload, scene, { a: ['Succeeded', size] }, { state: 'Succeeded' });
    const actions = plan(preload, { ...scene, jobs: [done] });
    assert.deepEqual(
      actions.filter(({ kind }) => kind === 'releasePins'),
      [{ kind: 'releasePins', owner, nodes: ['a'] }],
    );
    // With Once the revision stays that it began with.
    const both = new Map([...measures, [id, { kind: 'files' as const, files: 1n, bytes: BigInt(size) }]]);
    const once = preloadObject(named('a'), bound);
    assert.deepEqual(words(once, { ...base, measures: both, pinned: ['a'] }), ['start a']);
  });

  it('lets go of a Dataset that is deleted', () => {
    const preload = preloadObject(named('a'), bound);
    const scene = { nodes: three, pinned: ['a'] };
    const running = job(preload, observed(scene), { a: ['Running', 10] });
    const trouble = { reason: 'DatasetNotFound' as const, message: 'gone' };
    const datasets = [datasetView({ present: undefined, trouble })];
    assert.deepEqual(words(preload, { ...scene, jobs: [running], datasets }), ['cancel']);
  });

  it('changes nothing while agents do not answer, or the Dataset cannot be brought', () => {
    const preload = preloadObject(named('a'));
    const scene = observed({ nodes: three });
    assert.deepEqual(plan(preload, { ...scene, agents: undefined }), []);
    assert.deepEqual(plan(preload, { ...scene, pins: undefined }), []);
    const trouble = { reason: 'DatasetNotReady' as const, message: 'the origin is away' };
    const running = job(preload, scene, { a: ['Running', 10] });
    assert.deepEqual(words(preload, { nodes: three, datasets: [datasetView({ trouble })] }), []);
    assert.deepEqual(words(preload, { nodes: three, datasets: [datasetView({ trouble })], jobs: [running] }), []);
  });

  it('never touches pins of others', () => {
    const pins = new Map([['preload/other/x', new Set(['a'])]]);
    const scene = { ...observed({ nodes: { a: { resident: size } } }), pins };
    assert.deepEqual(plan(preloadObject({ ...named('a'), pin: false }), scene), []);
  });
});
