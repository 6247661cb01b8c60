// Runs test suites and ends with one line: N passed, N failed, N skipped.
// TEST_MINUTES: that all of them may take (84 in a CI, else 240).
// Usage: node scripts/test/main.ts all | programs | native | unit | lint | verify | e2e | fuzz | asan | tsan
import { runUntil } from './command.ts';
import { add, buildAhead, type Counts, suites } from './suites.ts';

/**
 * Of all suites: where a CI ends what takes longer than 90 minutes, as it would then know nothing of what failed. On a
 * machine that is busy with something else they take twice as long as they should, and only what hangs has to end.
 */
const wholeMinutes = Number(process.env.TEST_MINUTES || (process.env.CI ? 84 : 240));

const wanted = process.argv[2] ?? 'all';
const names = wanted === 'all' ? Object.keys(suites) : [suites[wanted]?.after ?? [], wanted].flat();
let total: Counts = { passed: 0, failed: 0, skipped: 0, failures: [] };
const rows: (Counts & { title: string; seconds: number })[] = [];
const wholeEnds = performance.now() + wholeMinutes * 60_000;
// So that what runs is ended when this process ends.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));

for (const name of names) {
  const suite = suites[name];
  if (!suite) {
    console.error(`There is no suite ${name}; choose all, ${Object.keys(suites).join(', ')}.`);
    process.exit(2);
  }
  console.log(`\n== ${suite.title}`);
  if (wanted === 'all' && name === 'unit') buildAhead(runUntil(wholeEnds));
  const started = performance.now();
  const counts = await suite.run(runUntil(Math.min(started + suite.minutes * 60_000, wholeEnds)));
  const seconds = Math.round((performance.now() - started) / 1000);
  console.log(
    `== ${suite.title}: ${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped in ${seconds} s`,
  );
  rows.push({ ...counts, title: suite.title, seconds });
  total = add(total, counts);
}

if (rows.length > 1) printRows();
if (total.failures.length > 0) console.log(`\nFailed:\n${total.failures.map((one) => `  ${one}`).join('\n')}`);
if (total.skipped > 0) console.log('\nSkipped tests print their reason above.');
console.log(`\n${total.passed} passed, ${total.failed} failed${total.skipped > 0 ? `, ${total.skipped} skipped` : ''}`);
process.exit(total.failed === 0 && total.passed > 0 ? 0 : 1);

function printRows(): void {
  const width = Math.max(...rows.map(({ title }) => title.length));
  const line = (title: string, ...cells: (string | number)[]) =>
    console.log(`${title.padEnd(width)}${cells.map((cell) => String(cell).padStart(9)).join('')}`);
  console.log('');
  line('', 'passed', 'failed', 'skipped', 'minutes');
  const minutes = (seconds: number) => (seconds / 60).toFixed(1);
  for (const { title, passed, failed, skipped, seconds } of rows) {
    line(title, passed, failed, skipped, minutes(seconds));
  }
  const seconds = rows.reduce((sum, row) => sum + row.seconds, 0);
  line('all', total.passed, total.failed, total.skipped, minutes(seconds));
}
