import assert from 'node:assert/strict';
import { HearthError, silentLogger } from '@hearth/common';
import { TestClock } from '@hearth/common/kubernetes/testing';
import { gate } from '@hearth/common/resources';
import { newPreload } from './group_preload.ts';
import { GroupReconciler, type GroupReconcilerOptions } from './group_reconciler.ts';
import { Groups } from './groups.ts';
import { podOf } from './testing/objects.ts';

const key = 'team/p';
const gated = podOf('a', []);
const member = { namespace: 'team', name: 'a', uid: 'a', createdAt: 0, preload: 'p', node: '', deleting: false, gated };
const preload = newPreload({ namespace: 'team', name: 'p' }, [member], gate.parse({}), ['llama']);
const written = { ...preload, spec: { ...preload.spec, placement: { gatedPods: { nodes: ['n1'] } } } };

describe('GroupReconciler', () => {
  let clock: TestClock;
  let answer: () => unknown;
  let looks: number[];
  let reconciler: GroupReconciler;

  beforeEach(() => {
    clock = new TestClock();
    looks = [];
    const source = { get: () => undefined };
    const call = async () => answer();
    reconciler = new GroupReconciler({
      api: { create: call, patch: call },
      groups: new Groups(() => {}),
      planning: { planOf: () => undefined, lastPlan: () => undefined },
      statuses: { nodes: () => undefined },
      readiness: { of: () => undefined },
      preloads: { get: () => preload },
      nodes: source,
      logger: silentLogger,
      clock,
      requeueAfter: (_key: string, ms: number) => looks.push(ms),
    } as unknown as GroupReconcilerOptions);
  });
  const signal = AbortSignal.timeout(300_000);
  const refuse = (code: 'PermissionDenied' | 'Conflict' | 'NotFound', message: string) => () => {
    throw new HearthError(code, message);
  };
  const writeNodes = () => reconciler.apply({ kind: 'writeNodes', change: {} }, key, signal);

  it('keeps why the API server refuses the nodes of a plan, until it does not, and looks again at once', async () => {
    answer = refuse('PermissionDenied', 'a policy forbids it');
    await writeNodes();
    assert.equal((await reconciler.observe(key)).state.nodesRefused, 'a policy forbids it');
    answer = () => preload;
    await writeNodes();
    assert.match(
      (await reconciler.observe(key)).state.nodesRefused ?? '',
      /CRD of CachePreloads is of an earlier release/,
    );
    assert.deepEqual(looks, [0]);
    answer = () => written;
    await writeNodes();
    const { state, nodesAgeMs } = await reconciler.observe(key);
    assert.deepEqual([state.nodesRefused, nodesAgeMs], [undefined, 0]);
  });

  it('lets no other failure to write nodes end the pass', async () => {
    answer = refuse('NotFound', 'gone');
    assert.deepEqual(await writeNodes(), {});
    answer = refuse('Conflict', 'another uid');
    assert.deepEqual(await writeNodes(), { requeueAfterMs: 1_000 });
    assert.equal((await reconciler.observe(key)).state.nodesRefused, undefined);
  });

  it('keeps why the API server refuses a CachePreload, and gives other errors to the queue', async () => {
    answer = refuse('PermissionDenied', 'a quota');
    await reconciler.apply({ kind: 'createPreload', object: preload }, key, signal);
    assert.equal((await reconciler.observe(key)).state.refused, 'a quota');
    assert.deepEqual(looks, [0]);
    answer = refuse('Conflict', 'another version');
    await assert.rejects(async () => reconciler.apply({ kind: 'patchPreload', change: {} }, key, signal), {
      code: 'Conflict',
    });
  });

  it('counts how long a group has no pods, from its last pod or the begin of the term', async () => {
    await clock.advance(1_000);
    assert.equal((await reconciler.observe(key)).emptyMs, 1_000);
    reconciler.podChanged('team/a', undefined, member);
    reconciler.podChanged('team/a', member, undefined);
    await clock.advance(500);
    assert.equal((await reconciler.observe(key)).emptyMs, 500);
  });
});
