import assert from 'node:assert/strict';
import { plan } from './planner.ts';
import { type LargeCluster, largeCluster } from './testing/large_cluster.ts';

const size: LargeCluster = {
  nodes: 5000,
  datasets: 1000,
  residentDatasets: 40,
  podsPerNode: 30,
  gatedPods: 500,
  podsPerGroup: 1,
};

/** Seconds of one core, whatever else the machine does meanwhile; the best of a few, as a process that has run for a while. */
function cpuSeconds(work: () => void): number {
  const runs = Array.from({ length: 4 }, () => {
    const before = process.cpuUsage();
    work();
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1e6;
  });
  return Math.min(...runs);
}

describe('planner, in a large cluster', function () {
  this.timeout(120_000);

  for (const podsPerGroup of [1, 5]) {
    it(`plans 500 pods in groups of ${podsPerGroup} within a second of one core`, () => {
      const input = largeCluster({ ...size, podsPerGroup });
      const plans = [...plan(input).values()];
      assert.ok(plans.every((one) => one.kind === 'warm' && one.assignment.size === podsPerGroup));
      const seconds = cpuSeconds(() => plan(input));
      const what = `${size.nodes} nodes, ${size.datasets} datasets, ${input.running.length} running pods`;
      console.log(`      ${what}, ${input.groups.length} groups: ${seconds.toFixed(2)} s of CPU`);
      assert.ok(seconds < 1, `${seconds} s`);
    });
  }
});
