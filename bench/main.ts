// Measures rows beside their baselines, prints a table and writes bench/results.json, bench/results.csv and
// bench/report.html. BENCH_QUICK, BENCH_BYTES, BENCH_RUNS, BENCH_ENTRIES, BENCH_DIRECTORY, BENCH_ROWS: docs/performance.md.
// BENCH_AGAINST: a commit; each row of this checkout beside the same row of that one, written to bench/results-against.json.
// Ends with 0 when each row could be measured, whether or not its target was reached.
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { root, run, seconds } from './command.ts';
import { type Comparison, compareGroup, comparisonHead, comparisonLine } from './comparison.ts';
import { csvOf } from './csv.ts';
import { runGroup } from './group_run.ts';
import { groupsOf, isWanted } from './groups.ts';
import { describeMachine, type Machine, processor } from './machine.ts';
import type { Group, Settings } from './plan.ts';
import { builtRelease, commitOf } from './release.ts';
import { reportOf } from './report.ts';
import { measure, type Row, reached, tableHead, tableLines } from './result.ts';
import { makeDirectory, settingsOf } from './settings.ts';

interface Measured {
  rows: Row[];
  below: string[];
  failures: string[];
}

type MeasureGroup = (group: Group, settings: Settings) => Promise<void>;

/** Failures are printed at once, and given back; how long each group took is printed at the end. */
async function eachGroup(settings: Settings, measureGroup: MeasureGroup): Promise<string[]> {
  const failures: string[] = [];
  const times: [string, number][] = [];
  for (const [index, group] of groupsOf(wantedRows).entries()) {
    const runs = Math.max(1, Math.round(settings.runs * (group.share ?? 1)));
    const own = { ...settings, runs, directory: join(settings.directory, String(index)) };
    try {
      times.push([group.ids[0] ?? '', await seconds(() => measureGroup(group, own))]);
    } catch (error) {
      failures.push(`${group.ids.join(', ')}: ${error instanceof Error ? error.message : String(error)}`);
      console.error(`not measured: ${failures.at(-1)}`);
    }
  }
  const all = times.reduce((sum, [, took]) => sum + took, 0);
  const each = times.map(([id, took]) => `${id} ${took.toFixed(0)}`).join(', ');
  console.log(`\n${(all / 60).toFixed(1)} minutes; seconds of each group: ${each}`);
  return failures;
}

async function measureAll(settings: Settings, machine: Machine): Promise<Measured> {
  const rows: Row[] = [];
  console.log(tableHead());
  const failures = await eachGroup(settings, (group, own) =>
    runGroup(group, own, { directory: own.directory, release: root }, async (about) => {
      if (!isWanted(wantedRows, about.id)) return;
      const measured = await measure(own.repeated ? about : { ...about, times: 1 }, own.runs, machine);
      rows.push(measured);
      console.log(tableLines(measured));
    }),
  );
  return { rows, failures, below: rows.filter((row) => reached(row) === 'NO').map(({ id }) => id) };
}

async function compareAll(settings: Settings, machine: Machine, release: string): Promise<Measured> {
  const rows: Comparison[] = [];
  console.log(comparisonHead());
  const done = (row: Comparison) => {
    rows.push(row);
    console.log(comparisonLine(row));
  };
  const wanted = (id: string) => isWanted(wantedRows, id);
  const failures = await eachGroup(settings, async (group, own) => {
    if (group.ownOnly) return console.log(`left out, as it measures this checkout only: ${group.ids.join(', ')}`);
    await compareGroup(group, own, { directory: own.directory, release, machine }, { wanted, done });
  });
  return { rows, failures, below: rows.filter((row) => row.low < row.target).map(({ id }) => id) };
}

/** Writes the reports for people and for programs; gives their paths. */
function write({ rows, failures }: Measured, about: string[], against: boolean): string {
  const path = (name: string): string => join(root, 'bench', name);
  const results = path(`results${against ? '-against' : ''}.json`);
  writeFileSync(results, `${JSON.stringify(rows, null, 2)}\n`);
  if (against) return results;
  writeFileSync(path('results.csv'), csvOf(rows));
  writeFileSync(path('report.html'), reportOf(rows, about, failures));
  return `${results}, results.csv and report.html`;
}

// So that what is removed when the process ends is also removed then.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));

if (process.getuid?.() !== 0) {
  console.error('make bench mounts and drops the page cache: run it as root');
  process.exit(1);
}
const { rows: wantedRows, ...given } = settingsOf(process.env);
const settings: Settings = { ...given, directory: makeDirectory(process.env) };
const against = process.env.BENCH_AGAINST;
try {
  const machine = await describeMachine(settings.directory);
  let other: { commit: string; folder: string } | undefined;
  if (against) {
    const commit = await commitOf(against);
    if (!commit) throw new Error(`this clone has no commit ${against}; BENCH_AGAINST names one of its history`);
    other = { commit, folder: await builtRelease(commit) };
  }
  const here = (await run('git', ['-C', root, 'rev-parse', 'HEAD']).catch(() => '')).slice(0, 12);
  const about = [
    `${processor()}, ${machine.cores} cores, ${machine.memoryGiB} GiB, Linux ${machine.kernel}, ` +
      `${machine.disk} ${machine.fileSystem}`,
    `${new Date().toISOString().slice(0, 16)}Z, ${here}: ${settings.bytes / 2 ** 20} MiB, ${settings.runs} runs` +
      `${other ? `, against ${other.commit.slice(0, 12)}` : ''}`,
  ];
  console.log(`${about.join('\n')}\n`);
  const measured = await (other ? compareAll(settings, machine, other.folder) : measureAll(settings, machine));
  const { rows, below, failures } = measured;
  console.log(`${rows.length} rows, written to ${write(measured, about, other !== undefined)}`);
  if (below.length > 0) console.log(`below their targets: ${below.join(', ')}`);
  if (failures.length > 0) console.log(`not measured:\n  ${failures.join('\n  ')}`);
  process.exitCode = failures.length === 0 && rows.length > 0 ? 0 : 1;
} finally {
  rmSync(settings.directory, { recursive: true, force: true });
}
