import type { PlanInput } from '../input.ts';
import { plan } from '../planner.ts';
import { type LargeCluster, largeCluster } from './large_cluster.ts';

const size: Omit<LargeCluster, 'podsPerGroup'> = {
  nodes: 5000,
  datasets: 1000,
  residentDatasets: 40,
  podsPerNode: 30,
  gatedPods: 500,
};

export function measuredCluster(podsPerGroup: number): PlanInput {
  return largeCluster({ ...size, podsPerGroup });
}

/**
 * Seconds of processor time that a plan takes, whatever else the machine does meanwhile: the best of a few runs, as in
 * a warmed-up process.
 */
function planningSeconds(input: PlanInput): number {
  const runs = Array.from({ length: 5 }, () => {
    const before = process.cpuUsage();
    plan(input);
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1e6;
  });
  return Math.min(...runs);
}

// For `make bench`: `node speed.ts PODS_PER_GROUP`.
if (import.meta.main) console.log(planningSeconds(measuredCluster(Number(process.argv[2] ?? 1))));
