// Runs test suites and ends with one line: N passed, N failed, N skipped.
// Usage: node scripts/test/main.ts all | native | unit | lint | verify | fuzz | asan | tsan
import { add, type Counts, suites } from './suites.ts';

const wanted = process.argv[2] ?? 'all';
const names = wanted === 'all' ? Object.keys(suites) : [wanted];
let total: Counts = { passed: 0, failed: 0, skipped: 0 };

for (const name of names) {
  const suite = suites[name];
  if (!suite) {
    console.error(`There is no suite ${name}; choose all, ${Object.keys(suites).join(', ')}.`);
    process.exit(2);
  }
  console.log(`\n== ${suite.title}`);
  const started = Date.now();
  const counts = await suite.run();
  const seconds = ((Date.now() - started) / 1000).toFixed(0);
  console.log(
    `== ${suite.title}: ${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped in ${seconds} s`,
  );
  total = add(total, counts);
}

if (total.skipped > 0) console.log('\nSkipped tests print their reason above.');
console.log(`\n${total.passed} passed, ${total.failed} failed${total.skipped > 0 ? `, ${total.skipped} skipped` : ''}`);
process.exit(total.failed === 0 && total.passed > 0 ? 0 : 1);
