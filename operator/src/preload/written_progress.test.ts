import assert from 'node:assert/strict';
import type { CachePreloadStatus } from '@hearth/common/resources';
import { preloadObject } from './testing/fixtures.ts';
import { WrittenProgress } from './written_progress.ts';

type Row = NonNullable<CachePreloadStatus['nodes']>[number];

describe('how often figures of CachePreloads are written', () => {
  let now: number;
  let written: WrittenProgress;
  beforeEach(() => {
    now = 1_000_000;
    written = new WrittenProgress(() => now);
  });

  function preload(name: string, bytesReady: number, rows = 1) {
    const nodes = Array.from({ length: rows }, (_, index) => ({ name: `n${index}` }) as Row);
    const made = preloadObject({}, { bytesReady, nodes });
    return { ...made, metadata: { ...made.metadata, name } };
  }

  it('is once a second, and at once when one is seen for the first time', () => {
    assert.deepEqual([written.holdMs(preload('a', 1)), written.holdMs(preload('a', 1))], [0, 0]);
    assert.equal(written.holdMs(preload('a', 2)), 1_000);
    now += 400;
    assert.equal(written.holdMs(preload('a', 2)), 600);
    now += 600;
    assert.equal(written.holdMs(preload('a', 2)), 0);
  });

  it('is rarer with many nodes, but at least every ten seconds', () => {
    for (const [rows, pause] of [
      [100, 1_000],
      [300, 3_000],
      [5_000, 10_000],
    ] as const) {
      written.forget('ns/large');
      written.holdMs(preload('large', 1, rows));
      assert.equal(written.holdMs(preload('large', 2, rows)), pause);
    }
  });

  it('is rarer while many move, and as before when they rest', () => {
    const all = (bytes: number) => Array.from({ length: 200 }, (_, index) => preload(`p${index}`, bytes));
    for (const one of all(1)) assert.equal(written.holdMs(one), 0);
    for (const one of all(2)) written.holdMs(one);
    now += 1_000;
    assert.equal(written.holdMs(preload('p0', 3)), 4_000);
    now += 20_000;
    assert.equal(written.holdMs(preload('p0', 4)), 1_000);
  });
});
