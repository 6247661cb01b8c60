import { existsSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { type Outcome, type Run, root } from './command.ts';
import { add, type Counts, type Failure, failedStep, saysWrongBytes } from './counts.ts';

/** Presets of native/CMakePresets.json with tests. */
export type Preset = 'release' | 'asan' | 'tsan';

export interface NativeTests {
  preset: Preset;
  /** Tests with the label `slow`: left out, the only ones, or among the others. */
  slow: 'without' | 'only' | 'with';
}

const labelArguments: Record<NativeTests['slow'], string[]> = {
  without: ['-LE', 'slow'],
  only: ['-L', 'slow'],
  with: [],
};

/** Most tests wait more than they work; under sanitizers they work. */
const jobs: Record<Preset, string> = { release: '4', asan: '3', tsan: '2' };

const environment = (preset: Preset): NodeJS.ProcessEnv => ({
  ASAN_OPTIONS: 'detect_stack_use_after_return=0',
  // Seconds of readers whose working set exceeds the cache.
  HEARTH_THROUGH_SECONDS: preset === 'release' ? '5' : '1',
  TSAN_OPTIONS: `suppressions=${join(root, 'native/tsan.supp')} second_deadlock_stack=1`,
});

export const buildNative = (run: Run, preset: string, targets: readonly string[] = []): Promise<Outcome> =>
  run('scripts/build-native.sh', [preset, ...targets]);

/** Builds a preset and runs its GoogleTest programs through ctest, counting from the JUnit report of ctest. */
export async function nativeTests(run: Run, { preset, slow }: NativeTests): Promise<Counts> {
  const built = await buildNative(run, preset);
  if (built.code !== 0) return failedStep(`the build of ${preset}`);
  const report = join(root, `build/${preset}.junit.xml`);
  rmSync(report, { force: true });
  const outcome = await run(
    'ctest',
    [
      '--test-dir',
      `build/${preset}`,
      '--output-on-failure',
      '--output-junit',
      report,
      '-j',
      jobs[preset],
      ...labelArguments[slow],
    ],
    { quiet: true, env: environment(preset) },
  );
  const xml = existsSync(report) ? readFileSync(report, 'utf8') : '';
  const counts = countsOf(xml, preset);
  for (const line of outcome.output.split('\n')) if (line.includes('***Skipped')) console.log(`  ${line.trim()}`);
  if (outcome.code === 0 || counts.failed > 0) return counts;
  console.log(outcome.output.slice(-5000));
  return add(counts, failedStep(`ctest: exit code ${outcome.code}`));
}

/** Runs one test again, alone. */
export const rerunNative = (run: Run, folder: string, name: string): Promise<Outcome> =>
  run('ctest', ['--test-dir', folder, '-R', `^${name.replace(/[.*+?^${}()|[\]\\/]/g, '\\$&')}$`, '-j', '1'], {
    quiet: true,
    env: environment('release'),
  });

function countsOf(xml: string, preset: Preset): Counts {
  const header = /<testsuite [^>]*>/s.exec(xml)?.[0] ?? '';
  const attribute = (name: string): number => Number(new RegExp(`${name}="(\\d+)"`).exec(header)?.[1] ?? 0);
  const failed = attribute('failures');
  const skipped = attribute('skipped') + attribute('disabled');
  const failures = [...xml.matchAll(/<testcase name="([^"]*)"[^>]*status="fail".*?<\/testcase>/gs)].map(
    ([testcase, name = '']) => failureOf(testcase, name, preset),
  );
  return { passed: attribute('tests') - failed - skipped, failed, skipped, failures };
}

function failureOf(testcase: string, name: string, preset: Preset): Failure {
  const output = outputOf(testcase);
  console.log(`\n${name}${output.slice(-5000)}`);
  // GoogleTest prints its summary only when the process lived to the end; ctest ends a process that hangs.
  const crashed = !output.includes('[  FAILED  ]');
  const reason = /: Failure\n(.*?)\n(?:\n|\[)/s.exec(output)?.[1] ?? (crashed ? 'crashed or hung' : '');
  const failure = { name, reason: reason.replace(/\s+/g, ' ').slice(0, 300) };
  if (preset !== 'release' || crashed || saysWrongBytes(output)) return failure;
  return { ...failure, rerun: { runner: 'ctest', folder: `build/${preset}`, name } };
}

/** The output of a test in the JUnit report of ctest. */
function outputOf(testcase: string): string {
  const escaped = /<system-out>(.*)<\/system-out>/s.exec(testcase)?.[1] ?? '';
  const characters: Record<string, string> = { lt: '<', gt: '>', quot: '"', apos: "'", amp: '&' };
  return escaped.replace(/&(lt|gt|quot|apos|amp);/g, (_all, name: string) => characters[name] ?? '');
}
