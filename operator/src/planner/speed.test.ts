import assert from 'node:assert/strict';
import { plan } from './planner.ts';
import { measuredCluster, planningSeconds } from './testing/speed.ts';

describe('planner, in a large cluster', () => {
  for (const podsPerGroup of [1, 5]) {
    it(`plans 500 pods in groups of ${podsPerGroup} within a second of one core`, () => {
      const input = measuredCluster(podsPerGroup);
      const plans = [...plan(input).values()];
      assert.ok(plans.every((one) => one.kind === 'warm' && one.assignment.size === podsPerGroup));
      const seconds = planningSeconds(input);
      const { nodes, datasets, running, groups } = input;
      const what = `${nodes.length} nodes, ${datasets.size} datasets, ${running.length} running pods`;
      console.log(`      ${what}, ${groups.length} groups: ${seconds.toFixed(2)} s of processor time`);
      assert.ok(seconds < 1, `${seconds} s`);
    });
  }
});
