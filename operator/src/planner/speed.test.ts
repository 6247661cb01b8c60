import assert from 'node:assert/strict';
import { plan } from './planner.ts';
import { measuredCluster } from './testing/speed.ts';

describe('planner, in a large cluster', () => {
  for (const podsPerGroup of [1, 5]) {
    it(`plans 500 pods in groups of ${podsPerGroup}`, () => {
      const input = measuredCluster(podsPerGroup);
      const plans = [...plan(input).values()];
      assert.equal(plans.length, 500 / podsPerGroup);
      assert.ok(plans.every((one) => one.kind === 'warm' && one.assignment.size === podsPerGroup));
    });
  }
});
