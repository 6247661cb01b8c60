import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { Cluster } from './cluster.ts';
import type { Group, Settings } from './plan.ts';
import type { Measure } from './result.ts';

/** Measures the rows of a group in a folder of its own, by the programs of `release`, and removes what it made. */
export async function runGroup(
  group: Group,
  settings: Settings,
  place: { directory: string; release: string },
  row: (about: Measure) => Promise<void>,
): Promise<void> {
  let cluster: Cluster | undefined;
  try {
    const folder = join(place.directory, 'cluster');
    const options = { ...place, memoryBytes: group.memory?.(settings) };
    cluster = await Cluster.start(folder, ['bench'], 2 * settings.bytes + 2 ** 30, options);
    await group.measure({ ...settings, ...place, cluster, row });
  } finally {
    await cluster?.stop();
    rmSync(place.directory, { recursive: true, force: true });
  }
}
