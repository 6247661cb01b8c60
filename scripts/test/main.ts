// Runs test suites and ends with one line: N passed, N failed. Writes build/test-result.json.
// TEST_MINUTES: limit of all suites together.
// Usage: node scripts/test/main.ts gate | test-slow | all | SUITE
import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { root, runUntil } from './command.ts';
import { add, type Counts, nothing } from './counts.ts';
import { rerunFailures } from './rerun.ts';
import { plans, suites } from './suites.ts';

const wanted = process.argv[2] ?? 'gate';
const names = plans[wanted] ?? [suites[wanted]?.after ?? [], wanted].flat();
const unknown = names.find((name) => suites[name] === undefined);
if (unknown !== undefined) {
  console.error(`There is no suite ${unknown}; choose ${[...Object.keys(plans), ...Object.keys(suites)].join(', ')}.`);
  process.exit(2);
}

const started = performance.now();
/** A gate that hangs ends with its counts, before a CI ends it without. */
const minutes = Number(process.env.TEST_MINUTES || (wanted === 'all' ? 360 : 75));
const ends = started + minutes * 60_000;
const secondsSince = (start: number) => Math.round((performance.now() - start) / 1000);
// Running commands end with this process.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));

const git = (...args: string[]) => execFileSync('git', args, { cwd: root, encoding: 'utf8' }).trim();
const commit = git('rev-parse', 'HEAD');
const isClean = git('status', '--porcelain') === '';

const rows: (Counts & { title: string; seconds: number })[] = [];
let total: Counts = nothing;
for (const name of names) {
  const suite = suites[name];
  if (suite === undefined) continue;
  console.log(`\n== ${suite.title}`);
  const suiteStarted = performance.now();
  const counts = await suite.run(runUntil(Math.min(suiteStarted + suite.minutes * 60_000, ends)));
  const seconds = secondsSince(suiteStarted);
  console.log(`== ${suite.title}: ${sumOf(counts)} in ${seconds} s`);
  rows.push({ ...counts, title: suite.title, seconds });
  total = add(total, counts);
}

const { counts, flaky } = await rerunFailures(runUntil(ends), total);
if (rows.length > 1) printRows();
if (counts.failures.length > 0) {
  const lines = counts.failures.map(({ name, reason }) => `  ${name}${reason === '' ? '' : `: ${reason}`}`);
  console.log(`\nFailed:\n${lines.join('\n')}`);
}
if (counts.skipped > 0) console.log('\nSkipped tests print their reason above.');
const { passed, failed } = counts;
const result = { commit, clean: isClean, passed, failed, flaky, seconds: secondsSince(started) };
mkdirSync(join(root, 'build'), { recursive: true });
writeFileSync(join(root, 'build/test-result.json'), `${JSON.stringify(result)}\n`);
console.log(`\n${passed} passed, ${failed} failed`);
process.exit(failed === 0 && passed > 0 ? 0 : 1);

function sumOf({ passed, failed, skipped }: Counts): string {
  return `${passed} passed, ${failed} failed, ${skipped} skipped`;
}

function printRows(): void {
  const width = Math.max(...rows.map(({ title }) => title.length));
  const line = (title: string, ...cells: (string | number)[]) =>
    console.log(`${title.padEnd(width)}${cells.map((cell) => String(cell).padStart(9)).join('')}`);
  console.log('');
  line('', 'passed', 'failed', 'skipped', 'minutes');
  for (const { title, passed, failed, skipped, seconds } of rows) {
    line(title, passed, failed, skipped, (seconds / 60).toFixed(1));
  }
  line('all', total.passed, total.failed, total.skipped, (secondsSince(started) / 60).toFixed(1));
}
