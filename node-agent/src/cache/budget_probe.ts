import type { Probe } from '@hearth/engine';
import { type CacheDirectory, type MeasuredDirectory, measureCacheDirectories } from '../config/index.ts';
import { sizeText } from './size_text.ts';

/** Checks that the disks have room for budgets and free floors; returns a row like hearth-probe's. */
export async function budgetProbe(directories: readonly CacheDirectory[]): Promise<Probe> {
  const systems = Map.groupBy(await measureCacheDirectories(directories), ({ device }) => device);
  const lacking = [...systems.values()].map(lackOf).filter((one) => one !== undefined);
  if (lacking.length === 0) return { name: 'budget', status: 'ok', detail: 'the disks hold the budgets', advice: '' };
  const advice = 'Lower the budget, or use a larger disk.';
  return { name: 'budget', status: 'degraded', detail: lacking.join('; '), advice };
}

/** Budgets on one file system add up; the largest of their floors holds for all. */
function lackOf(directories: readonly MeasuredDirectory[]): string | undefined {
  const [first] = directories;
  if (first === undefined) return undefined;
  const budget = directories.reduce((total, { budgetBytes }) => total + budgetBytes, 0n);
  let floor = 0n;
  for (const { freeFloorBytes } of directories) if (freeFloorBytes > floor) floor = freeFloorBytes;
  const room = first.fileSystemBytes - floor;
  if (budget <= room) return undefined;
  const paths = directories.map(({ path }) => path).join(' and ');
  return `the budget of ${paths} is ${sizeText(budget)}, but only ${sizeText(room)} (${room} bytes) are available: its file system has ${sizeText(first.fileSystemBytes)}, of which ${sizeText(floor)} must stay free`;
}
