import type { Run } from './command.ts';
import type { Counts, Failure, Rerun } from './counts.ts';
import { rerunNative } from './ctest.ts';
import { rerunMocha } from './mocha.ts';

/** More failing files than these are no chance. */
const maxReruns = 3;

const placeOf = (rerun: Rerun): string => (rerun.runner === 'ctest' ? rerun.name : rerun.file);

/**
 * Runs failed tests once more, each file of TypeScript and each test of C++ alone in a fresh process. Tests that pass then
 * count as passed and are named. Failures without `rerun` stay failures, and then nothing is repeated at all.
 */
export async function rerunFailures(run: Run, counts: Counts): Promise<{ counts: Counts; flaky: number }> {
  const places = new Map<string, Failure[]>();
  for (const failure of counts.failures) {
    if (failure.rerun === undefined) return { counts, flaky: 0 };
    const place = placeOf(failure.rerun);
    places.set(place, [...(places.get(place) ?? []), failure]);
  }
  if (places.size === 0) return { counts, flaky: 0 };
  if (places.size > maxReruns) {
    console.log(`\n${places.size} files failed: more than ${maxReruns} are not run again.`);
    return { counts, flaky: 0 };
  }
  console.log('\n== Failed tests, once more and alone');
  let flaky = 0;
  const lasting: Failure[] = [];
  for (const [place, failures] of places) {
    const [first] = failures;
    if (first?.rerun === undefined) continue;
    const { rerun } = first;
    const { code, output } = await (rerun.runner === 'ctest'
      ? rerunNative(run, rerun.folder, rerun.name)
      : rerunMocha(run, rerun.file));
    if (code === 0) {
      flaky += 1;
      console.log(`FLAKY ${place}: ${first.reason}`);
    } else {
      lasting.push(...failures);
      console.log(`${place} fails again:\n${output.slice(-5000)}`);
    }
  }
  const passedNow = counts.failures.length - lasting.length;
  return {
    counts: { ...counts, passed: counts.passed + passedNow, failed: counts.failed - passedNow, failures: lasting },
    flaky,
  };
}
