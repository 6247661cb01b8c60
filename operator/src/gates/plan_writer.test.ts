import assert from 'node:assert/strict';
import { HearthError } from '@hearth/common';
import { TestClock } from '@hearth/common/kubernetes/testing';
import { type CachePreload, gate } from '@hearth/common/resources';
import { newPreload } from './group_preload.ts';
import { PlanWriter } from './plan_writer.ts';
import { podOf } from './testing/objects.ts';

const key = 'team/p';
const gated = podOf('a', []);
const member = { namespace: 'team', name: 'a', uid: 'a', createdAt: 0, preload: 'p', node: '', deleting: false, gated };

describe('PlanWriter', () => {
  let preload: CachePreload;
  let patches: string[][];
  let answer: (nodes: string[]) => CachePreload;
  let clock: TestClock;
  let writer: PlanWriter;
  const withNodes = (nodes: string[] | undefined): CachePreload => {
    const { gatedPods } = preload.spec.placement;
    return { ...preload, spec: { ...preload.spec, placement: { gatedPods: { ...gatedPods, nodes } } } } as CachePreload;
  };
  beforeEach(() => {
    preload = newPreload({ namespace: 'team', name: 'p' }, [member], gate.parse({}), ['llama']);
    patches = [];
    clock = new TestClock();
    answer = (nodes) => withNodes(nodes);
    const patch = async (_type: unknown, _name: string, _namespace: string | undefined, change: object) => {
      const { nodes } = (change as CachePreload).spec.placement.gatedPods as { nodes: string[] };
      patches.push(nodes);
      const written = answer(nodes);
      if (written.spec.placement.gatedPods?.nodes !== undefined) preload = written;
      return written;
    };
    writer = new PlanWriter({ patch } as never, clock);
  });
  const write = (nodes: string[] | undefined, waiting = true) =>
    writer.write(key, preload, nodes, { waiting, signal: AbortSignal.timeout(300_000) });

  it('writes what is not written yet, at once while pods wait', async () => {
    for (const nodes of [['n1'], ['n1'], ['n1', 'n2'], undefined, ['n2', 'n1']])
      assert.equal(await write(nodes), undefined);
    assert.deepEqual(patches, [['n1'], ['n1', 'n2'], ['n2', 'n1']]);
  });

  it('writes now and then while pods are bound one after the other, whatever their order', async () => {
    const nodes = Array.from({ length: 500 }, (_, index) => `n${index}`);
    for (let bound = 1; bound <= 500; bound++) {
      const again = await write(nodes.slice(0, bound), false);
      assert.ok(bound === 1 ? again === undefined : again !== undefined && again > 0 && again <= 5_000);
    }
    assert.equal(patches.length, 1);
    await clock.advance(5_000);
    assert.equal(await write(nodes, false), undefined);
    await clock.advance(5_000);
    assert.equal(await write([...nodes].reverse(), false), undefined);
    assert.deepEqual([patches.length, patches[1]?.length], [2, 500]);
  });

  it('keeps why the API server refuses it, until it does not', async () => {
    answer = () => {
      throw new HearthError('PermissionDenied', 'a policy forbids it');
    };
    await write(['n1']);
    assert.equal(writer.refusal(key), 'a policy forbids it');
    answer = () => withNodes(undefined);
    await write(['n1']);
    assert.match(writer.refusal(key) ?? '', /definition of CachePreloads is of an earlier release/);
    answer = (nodes) => withNodes(nodes);
    await write(['n1']);
    assert.equal(writer.refusal(key), undefined);
  });

  it('has nothing to say of one that is gone, and gives other errors to its caller', async () => {
    answer = () => {
      throw new HearthError('NotFound', 'gone');
    };
    assert.equal(await write(['n1']), undefined);
    answer = () => {
      throw new HearthError('Conflict', 'another uid');
    };
    await assert.rejects(write(['n1']), { code: 'Conflict' });
    assert.equal(writer.refusal(key), undefined);
  });
});
