// Measures rows beside their baselines and writes a table and bench/results.json.
// BENCH_BYTES (2 GiB), BENCH_RUNS (5), BENCH_ENTRIES (1000000), BENCH_DIRECTORY (the system's temporary
// folder), BENCH_ROWS (all; ids or their beginnings, with commas between), BENCH_AGAINST (none; a commit: each row of this
// checkout beside the same row of that one, written to bench/results-against.json).
// Ends with 0 when each row could be measured, whether or not its target was reached.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { root } from './command.ts';
import { type Comparison, compareGroup, comparisonHead, comparisonLine } from './comparison.ts';
import { runGroup } from './group_run.ts';
import { describeMachine, type Machine, processor } from './machine.ts';
import type { Group, Settings } from './plan.ts';
import { builtRelease, commitOf } from './release.ts';
import { measure, type Row, tableHead, tableLine } from './result.ts';
import { completeFile } from './rows/complete_file.ts';
import { gates } from './rows/gates.ts';
import { http } from './rows/http.ts';
import { idleOperator } from './rows/idle_operator.ts';
import { limits } from './rows/limits.ts';
import { planner } from './rows/planner.ts';
import { smallCold } from './rows/small_cold.ts';
import { smallFiles } from './rows/small_files.ts';
import { spreading } from './rows/spread.ts';
import { transport } from './rows/transport.ts';
import { warmDirectory } from './rows/warm_directory.ts';

function count(name: string, otherwise: number): number {
  const value = Number(process.env[name] ?? otherwise);
  if (!Number.isSafeInteger(value) || value < 1) throw new Error(`${name} must be a whole number above 0`);
  return value;
}

const wanted = (process.env.BENCH_ROWS ?? '').split(',').filter((word) => word !== '');
const isWanted = (id: string): boolean => wanted.length === 0 || wanted.some((word) => id.startsWith(word));
const groups = [
  completeFile,
  smallFiles,
  smallCold,
  http,
  warmDirectory,
  spreading,
  transport,
  limits,
  planner,
  gates,
  idleOperator,
].filter(({ ids }) =>
  ids.some((id) => wanted.length === 0 || wanted.some((word) => id.startsWith(word) || word.startsWith(id))),
);

/** Failures are printed at once, and given back. */
async function eachGroup(settings: Settings, measureGroup: (group: Group, directory: string) => Promise<void>) {
  const failures: string[] = [];
  for (const [index, group] of groups.entries()) {
    try {
      await measureGroup(group, join(settings.directory, String(index)));
    } catch (error) {
      failures.push(`${group.ids.join(', ')}: ${error instanceof Error ? error.message : String(error)}`);
      console.error(`not measured: ${failures.at(-1)}`);
    }
  }
  return failures;
}

interface Measured {
  rows: Row[];
  below: string[];
  failures: string[];
}

async function measureAll(settings: Settings, machine: Machine): Promise<Measured> {
  const rows: Row[] = [];
  console.log(tableHead());
  const failures = await eachGroup(settings, (group, directory) =>
    runGroup(group, settings, { directory, release: root }, async (about) => {
      if (!isWanted(about.id)) return;
      const measured = await measure(about, settings.runs, machine);
      rows.push(measured);
      console.log(tableLine(measured));
    }),
  );
  return { rows, failures, below: rows.filter((row) => row.ratio < row.target).map(({ id }) => id) };
}

async function compareAll(settings: Settings, machine: Machine, release: string): Promise<Measured> {
  const rows: Comparison[] = [];
  console.log(comparisonHead());
  const done = (row: Comparison) => {
    rows.push(row);
    console.log(comparisonLine(row));
  };
  const failures = await eachGroup(settings, async (group, directory) => {
    if (group.ownOnly) return console.log(`left out, as it measures this checkout only: ${group.ids.join(', ')}`);
    await compareGroup(group, settings, { directory, release, machine }, { wanted: isWanted, done });
  });
  return { rows, failures, below: rows.filter((row) => row.low < row.target).map(({ id }) => id) };
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
const against = process.env.BENCH_AGAINST;
try {
  const machine = await describeMachine(settings.directory);
  let other: { commit: string; folder: string } | undefined;
  if (against) {
    const commit = await commitOf(against);
    if (!commit) throw new Error(`this clone has no commit ${against}; BENCH_AGAINST names one of its history`);
    other = { commit, folder: await builtRelease(commit) };
  }
  console.log(
    `${processor()}, ${machine.cores} cores, ${machine.memoryGiB} GiB, Linux ${machine.kernel}, ` +
      `${machine.disk} ${machine.fileSystem}\n${settings.bytes / 2 ** 20} MiB, ${settings.runs} runs` +
      `${other ? `, this checkout against ${other.commit.slice(0, 12)}` : ''}\n`,
  );
  const { rows, below, failures } = await (other
    ? compareAll(settings, machine, other.folder)
    : measureAll(settings, machine));
  const results = join(root, `bench/results${other ? '-against' : ''}.json`);
  writeFileSync(results, `${JSON.stringify(rows, null, 2)}\n`);
  console.log(`\n${rows.length} rows, written to ${results}`);
  if (below.length > 0) console.log(`below their targets: ${below.join(', ')}`);
  if (failures.length > 0) console.log(`not measured:\n  ${failures.join('\n  ')}`);
  process.exitCode = failures.length === 0 && rows.length > 0 ? 0 : 1;
} finally {
  rmSync(settings.directory, { recursive: true, force: true });
}
