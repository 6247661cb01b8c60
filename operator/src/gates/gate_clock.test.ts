import assert from 'node:assert/strict';
import type { CachePreload } from '@hearth/common/resources';
import { clockAnnotation, gateClock } from './gate_clock.ts';
import type { GatedMember } from './groups.ts';

const minute = 60_000;
const ours = { name: 'hearth.storage/preload' };
const kueue = { name: 'kueue.x-k8s.io/admission' };

function member(createdAt: number, gates = [ours]): GatedMember {
  const gated = { spec: { containers: [], schedulingGates: gates } };
  return { namespace: 'team', name: 'a', uid: 'u', createdAt, preload: 'p', node: '', deleting: false, gated };
}

const marked = (mark?: string) =>
  ({ metadata: mark === undefined ? {} : { annotations: { [clockAnnotation]: mark } } }) as unknown as CachePreload;

describe('clock of a gate', () => {
  it('runs from the creation of the oldest pod, without a mark', () => {
    const pods = [member(3_000), member(1_000)];
    assert.deepEqual(gateClock(pods, minute, undefined, 9_000), { until: 61_000, mark: undefined });
    assert.deepEqual(gateClock(pods, minute, marked(), 9_000), { until: 61_000, mark: undefined });
  });

  it('stands while others hold all pods, which the plan says', () => {
    const pods = [member(1_000, [ours, kueue]), member(2_000, [kueue, ours])];
    assert.deepEqual(gateClock(pods, minute, undefined, 10 * minute), { until: undefined, mark: 'held' });
    assert.deepEqual(gateClock(pods, minute, marked('held'), 10 * minute), { until: undefined, mark: undefined });
  });

  it('begins when the first pod is free, and goes on so with the next leader', () => {
    const freed = 10 * minute;
    const first = gateClock([member(1_000), member(1_000, [ours, kueue])], minute, marked('held'), freed);
    assert.deepEqual(first, { until: freed + minute, mark: new Date(freed).toISOString() });
    const later = gateClock([member(1_000)], minute, marked(first.mark), freed + 5_000);
    assert.deepEqual(later, { until: freed + minute, mark: undefined });
  });

  it('counts a free pod from its creation when it came after the others were free', () => {
    const mark = new Date(10_000).toISOString();
    assert.equal(gateClock([member(20_000), member(1_000, [kueue])], minute, marked(mark), 30_000).until, 80_000);
  });
});
