import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Settings } from './plan.ts';

/** Sizes for which `make bench` takes a quarter of an hour, on two cores. */
const usual = { bytes: 2 * 2 ** 30, runs: 3, entries: 1_000_000, rows: [] as string[], repeated: true };

/** In three minutes: a row of each way that bytes take. Single figures say little; what has broken shows. */
const quick: typeof usual = {
  bytes: 512 * 2 ** 20,
  runs: 3,
  entries: 100_000,
  rows: [
    ...['local-read-cold', 'view-read-cold', 'daemon-read', 'cold-small-first', 'cold-http', 'stored-http'],
    ...['cold-s3-1r', 'cpu-cold', 'cold-hub', 'origin-bytes-1', 'remote-256m', 'lat-4k', 'lat-64k', 'loops-calls'],
    'idle-memory',
  ],
  repeated: false,
};

type Environment = Readonly<Record<string, string | undefined>>;

function count(environment: Environment, name: string, otherwise: number): number {
  const value = Number(environment[name] || otherwise);
  if (!Number.isSafeInteger(value) || value < 1) throw new Error(`${name} must be a whole number above 0`);
  return value;
}

/** As the variables say (docs/performance.md); makes no folder. */
export function settingsOf(environment: Environment): Omit<Settings, 'directory'> & { rows: string[] } {
  const preset = environment.BENCH_QUICK ? quick : usual;
  const words = (environment.BENCH_ROWS ?? '').split(',').filter((word) => word !== '');
  return {
    bytes: count(environment, 'BENCH_BYTES', preset.bytes),
    runs: count(environment, 'BENCH_RUNS', preset.runs),
    entries: count(environment, 'BENCH_ENTRIES', preset.entries),
    repeated: preset.repeated,
    rows: words.length === 0 ? preset.rows : words,
  };
}

/** A temporary folder on a disk. */
export const makeDirectory = (environment: Environment): string =>
  mkdtempSync(join(environment.BENCH_DIRECTORY ?? tmpdir(), 'hearth-bench-'));
