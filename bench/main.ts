// Measures rows beside their baselines and writes a table and bench/results.json.
// BENCH_BYTES (2 GiB), BENCH_RUNS (5), BENCH_ENTRIES (1000000), BENCH_DIRECTORY (the system's temporary
// folder), BENCH_ROWS (all; ids or their beginnings, with commas between).
// Ends with 0 when each row could be measured, whether or not its target was reached.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Cluster } from './cluster.ts';
import { root } from './command.ts';
import { describeMachine, processor } from './machine.ts';
import type { Settings, Surroundings } from './plan.ts';
import { type Measure, measure, type Row, tableHead, tableLine } from './result.ts';
import { completeFile } from './rows/complete_file.ts';
import { http } from './rows/http.ts';
import { limits } from './rows/limits.ts';
import { planner } from './rows/planner.ts';
import { smallCold } from './rows/small_cold.ts';
import { smallFiles } from './rows/small_files.ts';
import { spreading } from './rows/spread.ts';
import { warmDirectory } from './rows/warm_directory.ts';

function count(name: string, otherwise: number): number {
  const value = Number(process.env[name] ?? otherwise);
  if (!Number.isSafeInteger(value) || value < 1) throw new Error(`${name} must be a whole number above 0`);
  return value;
}

const wanted = (process.env.BENCH_ROWS ?? '').split(',').filter((word) => word !== '');
const isWanted = (id: string): boolean => wanted.length === 0 || wanted.some((word) => id.startsWith(word));
const groups = [completeFile, smallFiles, smallCold, http, warmDirectory, spreading, limits, planner].filter(
  ({ ids }) =>
    ids.some((id) => wanted.length === 0 || wanted.some((word) => id.startsWith(word) || word.startsWith(id))),
);

async function measureAll(settings: Settings): Promise<{ rows: Row[]; failures: string[] }> {
  const machine = await describeMachine(settings.directory);
  console.log(
    `${processor()}, ${machine.cores} cores, ${machine.memoryGiB} GiB, Linux ${machine.kernel}, ` +
      `${machine.disk} ${machine.fileSystem}\n${settings.bytes / 2 ** 20} MiB, ${settings.runs} runs\n\n${tableHead()}`,
  );
  const rows: Row[] = [];
  const failures: string[] = [];
  for (const [index, group] of groups.entries()) {
    const directory = join(settings.directory, String(index));
    let cluster: Cluster | undefined;
    try {
      cluster = await Cluster.start(join(directory, 'cluster'), ['bench'], 2 * settings.bytes + 2 ** 30);
      const row = async (about: Measure): Promise<void> => {
        if (!isWanted(about.id)) return;
        const measured = await measure(about, settings.runs, machine);
        rows.push(measured);
        console.log(tableLine(measured));
      };
      const around: Surroundings = { ...settings, directory, cluster, row };
      await group.measure(around);
    } catch (error) {
      failures.push(`${group.ids.join(', ')}: ${error instanceof Error ? error.message : String(error)}`);
      console.error(`not measured: ${failures.at(-1)}`);
    } finally {
      await cluster?.stop();
      rmSync(directory, { recursive: true, force: true });
    }
  }
  return { rows, failures };
}

// So that what is removed when the process ends is also removed then.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));

if (process.getuid?.() !== 0) {
  console.error('make bench mounts and drops the page cache: run it as root');
  process.exit(1);
}
const settings: Settings = {
  directory: mkdtempSync(join(process.env.BENCH_DIRECTORY ?? tmpdir(), 'hearth-bench-')),
  bytes: count('BENCH_BYTES', 2 * 2 ** 30),
  runs: count('BENCH_RUNS', 5),
  entries: count('BENCH_ENTRIES', 1_000_000),
};
try {
  const { rows, failures } = await measureAll(settings);
  const results = join(root, 'bench/results.json');
  writeFileSync(results, `${JSON.stringify(rows, null, 2)}\n`);
  const below = rows.filter((row) => row.ratio < row.target).map(({ id }) => id);
  console.log(`\n${rows.length} rows, written to ${results}`);
  if (below.length > 0) console.log(`below their targets: ${below.join(', ')}`);
  if (failures.length > 0) console.log(`not measured:\n  ${failures.join('\n  ')}`);
  process.exitCode = failures.length === 0 && rows.length > 0 ? 0 : 1;
} finally {
  rmSync(settings.directory, { recursive: true, force: true });
}
