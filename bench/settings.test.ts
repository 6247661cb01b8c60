import assert from 'node:assert/strict';
import { groupsOf, isWanted } from './groups.ts';
import type { Group } from './plan.ts';
import { settingsOf } from './settings.ts';

describe('bench settings', () => {
  it('are those of the quick run where it is asked for, but for what is given', () => {
    assert.deepEqual(settingsOf({}).rows, []);
    const quick = settingsOf({ BENCH_QUICK: '1', BENCH_RUNS: '1' });
    assert.ok(quick.bytes < settingsOf({}).bytes);
    assert.equal(quick.runs, 1);
    assert.ok(quick.rows.includes('cold-http'));
    assert.deepEqual(settingsOf({ BENCH_QUICK: '1', BENCH_ROWS: 'lat-,' }).rows, ['lat-']);
    assert.throws(() => settingsOf({ BENCH_BYTES: '1.5' }), /BENCH_BYTES must be a whole number above 0/);
  });

  it('name rows by their beginnings, and long ones have to be named', () => {
    const group = (ids: string[], long: boolean): Group => ({ ids, long, measure: async () => {} });
    const [short, long] = [group(['cold-http', 'stored-http'], false), group(['gates'], true)];
    assert.deepEqual(groupsOf([], [short, long]), [short]);
    assert.deepEqual(groupsOf(['gates'], [short, long]), [long]);
    assert.deepEqual(groupsOf(['cold-http-1r', 'ga'], [short, long]), [short, long]);
    assert.ok(isWanted(['cold-'], 'cold-http-1r'));
    assert.ok(!isWanted(['cold-http-1r'], 'cold-http-4r'));
  });

  it('of the quick run name rows of groups that there are', () => {
    for (const row of settingsOf({ BENCH_QUICK: '1' }).rows) assert.equal(groupsOf([row]).length, 1, row);
  });
});
