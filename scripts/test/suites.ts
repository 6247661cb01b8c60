import { existsSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { node, type Outcome, type Run, reporterOf, root } from './command.ts';
import { NativeBuilds, type Preset } from './native_builds.ts';
import { generatedFiles, styleCheck, testFiles } from './sources.ts';

export interface Counts {
  passed: number;
  failed: number;
  skipped: number;
  /** What failed: the name of a test or step, and on the same line why when it is known. */
  failures: string[];
}

const builds = new NativeBuilds();

/** Begins what the last suites need, as the tests before them wait more than they work. */
export function buildAhead(run: Run): void {
  builds.begin(run, [{ preset: 'fuzz', targets: fuzzers().targets }, { preset: 'asan' }, { preset: 'tsan' }]);
}

const failedStep = (name: string): Counts => ({ passed: 0, failed: 1, skipped: 0, failures: [name] });

const step = (name: string, { code }: Outcome): Counts =>
  code === 0 ? { passed: 1, failed: 0, skipped: 0, failures: [] } : failedStep(name);

/** Of a test in ctest's JUnit report. */
function outputOf(testcase: string): string {
  const escaped = /<system-out>(.*)<\/system-out>/s.exec(testcase)?.[1] ?? '';
  const characters: Record<string, string> = { lt: '<', gt: '>', quot: '"', apos: "'", amp: '&' };
  return escaped.replace(/&(lt|gt|quot|apos|amp);/g, (_all, name: string) => characters[name] ?? '');
}

/** Builds a preset and runs its GoogleTest programs through ctest, counting from its JUnit report. */
async function native(run: Run, preset: Exclude<Preset, 'fuzz'>): Promise<Counts> {
  const built = await builds.build(run, { preset });
  if (built.code !== 0) return failedStep(`the build of ${preset}`);
  const report = join(root, `build/${preset}.junit.xml`);
  rmSync(report, { force: true });
  const outcome = await run(
    'ctest',
    ['--test-dir', `build/${preset}`, '--output-on-failure', '--output-junit', report, '-j', '2'],
    {
      quiet: true,
      env: {
        ASAN_OPTIONS: 'detect_stack_use_after_return=0',
        // Readers of a working set larger than the cache, for a minute; under sanitizers a second shows as much.
        HEARTH_THROUGH_SECONDS: preset === 'release' ? '60' : '1',
        TSAN_OPTIONS: `suppressions=${join(root, 'native/tsan.supp')} second_deadlock_stack=1`,
      },
    },
  );
  const xml = existsSync(report) ? readFileSync(report, 'utf8') : '';
  const header = /<testsuite [^>]*>/s.exec(xml)?.[0];
  const wrong = [...xml.matchAll(/<testcase name="([^"]*)"[^>]*status="fail".*?<\/testcase>/gs)];
  const failures = wrong.map(([, name]) => `${name}`);
  const attribute = (name: string): number => Number(new RegExp(`${name}="(\\d+)"`).exec(header ?? '')?.[1] ?? 0);
  const failed = attribute('failures');
  const skipped = attribute('skipped') + attribute('disabled');
  const counts = { passed: attribute('tests') - failed - skipped, failed, skipped, failures };
  // What each of them said; ctest prints it between the lines of all others.
  for (const [testcase, name] of wrong) console.log(`\n${name}${outputOf(testcase).slice(-5000)}`);
  if (outcome.code !== 0 && failed === 0) {
    console.log(outcome.output.slice(-5000));
    return add(counts, failedStep(`ctest: exit code ${outcome.code}`));
  }
  for (const line of outcome.output.split('\n')) if (line.includes('***Skipped')) console.log(`  ${line.trim()}`);
  return counts;
}

interface MochaReport {
  stats: { passes: number; failures: number; pending: number };
  /** Titles of the tests and hooks that failed, each with its error on one line. */
  failed: string[];
}

interface MochaRun {
  output: string;
  counts: Counts;
}

interface MochaOptions {
  /** What is written is only returned. */
  quiet?: boolean;
  env?: NodeJS.ProcessEnv;
}

async function mocha(run: Run, name: string, args: string[], options: MochaOptions = {}): Promise<MochaRun> {
  const report = join(root, `build/${name}.json`);
  rmSync(report, { force: true });
  mkdirSync(join(root, 'build'), { recursive: true });
  const mocha = ['node_modules/mocha/bin/mocha.js', ...args, ...reporterOf(report)];
  const { code, output } = await run(node, mocha, options);
  if (!existsSync(report))
    return { output, counts: failedStep(`mocha ended without a report, with exit code ${code}`) };
  const { stats, failed } = JSON.parse(readFileSync(report, 'utf8')) as MochaReport;
  const counts = { passed: stats.passes, failed: stats.failures, skipped: stats.pending, failures: failed };
  if (stats.failures > 0 || code === 0) return { output, counts };
  return { output, counts: add(counts, failedStep(`mocha passed, and its process ended with exit code ${code}`)) };
}

/** Before the tests, as compilers leave nothing for those beside them. Without root they may be out of reach. */
async function programs(run: Run): Promise<Counts> {
  const built = await run(node, ['scripts/tools/get.ts', 'all']);
  if (built.code !== 3 || process.getuid?.() === 0) return step('programs that tests need', built);
  return { passed: 0, failed: 0, skipped: 1, failures: [] };
}

type MochaCall = [name: string, args: string[]];

/**
 * Two mocha processes at a time, each with ports of its own (common/src/testing/free_port.ts); what the quiet one writes
 * comes when both have ended.
 */
async function sideBySide(run: Run, loud: MochaCall, quiet: MochaCall): Promise<Counts> {
  const [shown, kept] = await Promise.all([
    mocha(run, ...loud, { env: { HEARTH_TEST_PORTS: '0' } }),
    mocha(run, ...quiet, { env: { HEARTH_TEST_PORTS: '1' }, quiet: true }),
  ]);
  process.stdout.write(kept.output);
  return add(shown.counts, kept.counts);
}

/** mocha's options that leave files out. */
const without = (files: readonly string[]) => files.flatMap((glob) => ['--ignore', glob]);

/** Programs wait for one another, so the tests of their parts run beside those of whole programs. */
async function unit(run: Run): Promise<Counts> {
  const { measured, programs, parts, onApiServer } = testFiles;
  const alone = await mocha(run, 'unit-measured', measured);
  const both = await sideBySide(
    run,
    ['unit-programs', [...programs, ...without(measured)]],
    ['unit-parts', [...parts, ...without(onApiServer)]],
  );
  return add(alone.counts, both);
}

/** Those on nodes wait most of their time, so the others run beside them. */
async function kubernetes(run: Run): Promise<Counts> {
  const common = ['--config', 'e2e/.mocharc.json', '--exit'];
  const { onNodes, kubernetes, onApiServer } = testFiles;
  return await sideBySide(
    run,
    ['e2e', [...common, ...onNodes]],
    ['e2e-api-servers', [...common, ...kubernetes, ...onApiServer, ...without(onNodes)]],
  );
}

/**
 * Reads several files of a room at once, as the sanitizers compile them, because most of its time goes into headers. Tests
 * are left out: they take as long again.
 */
async function clangTidy(run: Run): Promise<Outcome> {
  const folder = 'build/lint';
  const configured = await run('cmake', ['--preset', 'lint', '-S', 'native'], { quiet: true });
  if (configured.code !== 0) {
    process.stdout.write(configured.output);
    return configured;
  }
  const commands = JSON.parse(readFileSync(join(root, folder, 'compile_commands.json'), 'utf8')) as { file: string }[];
  const files = commands.map(({ file }) => file).filter((file) => !/_(test|fuzz)(\.dir|\.cc)/.test(file));
  const list = join(root, folder, 'sources.txt');
  writeFileSync(list, files.join('\n'));
  // These files include sources, which is what they are for.
  const clangTidy = `clang-tidy-19 -p ${folder} --quiet --checks=-bugprone-suspicious-include 2> build/clang-tidy.log`;
  return await run('bash', ['-c', `xargs -P2 -n1 -a ${list} ${clangTidy}`]);
}

async function lint(run: Run): Promise<Counts> {
  const format = "git ls-files 'native/*.h' 'native/*.cc' | grep -v /generated/ | xargs clang-format --dry-run -Werror";
  return [
    step('tsc', await run('node_modules/.bin/tsc', ['-b'])),
    step('biome', await run('node_modules/.bin/biome', styleCheck)),
    step('clang-format', await run('bash', ['-c', format])),
    step('clang-tidy', await clangTidy(run)),
  ].reduce(add);
}

/** Generated files are written again and must not differ from what is committed. */
async function verify(run: Run): Promise<Counts> {
  const counts: Counts[] = [];
  for (const script of globSync('scripts/generate-*.ts', { cwd: root }).sort()) {
    counts.push(step(script, await run(node, [script], { quiet: true })));
  }
  const changed = await run('git', ['diff', '--exit-code', '--stat', '--', ...generatedFiles]);
  counts.push(step('generated files differ from what is committed', changed));
  // A diff does not see files that were never committed.
  const unknown = await run('git', ['ls-files', '--others', '--exclude-standard', '--', ...generatedFiles], {
    quiet: true,
  });
  if (unknown.output !== '') console.log(`generated, and not committed:\n${unknown.output}`);
  const code = unknown.output === '' ? unknown.code : 1;
  counts.push(step('generated files that are not committed', { ...unknown, code }));
  return counts.reduce(add);
}

/** Files, and the names of their programs in the same order. */
function fuzzers(): { sources: string[]; targets: string[] } {
  const sources = globSync('native/*/*_fuzz.cc', { cwd: root }).sort();
  return { sources, targets: sources.map((path) => `hearth_${path.split('/').at(-1)?.replace('.cc', '')}`) };
}

async function fuzz(run: Run): Promise<Counts> {
  const seconds = process.env.FUZZ_SECONDS ?? '60';
  const { sources, targets } = fuzzers();
  const built = await builds.build(run, { preset: 'fuzz', targets });
  if (built.code !== 0) return failedStep('the build of the fuzzers');
  const outcomes = sources.map(async (path, index) => {
    const program = `build/fuzz/${path.split('/')[1]}/${targets[index]}`;
    const corpus = join(root, 'build/corpus', targets[index] ?? '');
    mkdirSync(corpus, { recursive: true });
    const outcome = await run(program, [`-max_total_time=${seconds}`, '-print_final_stats=1', corpus], { quiet: true });
    const executed = /number_of_executed_units: (\d+)/.exec(outcome.output)?.[1];
    console.log(`  ${targets[index]}: ${executed ?? 'no'} inputs in ${seconds} s, exit ${outcome.code}`);
    if (outcome.code !== 0) process.stdout.write(outcome.output.slice(-4000));
    return step(path, outcome);
  });
  return (await Promise.all(outcomes)).reduce(add);
}

export function add(a: Counts, b: Counts): Counts {
  return {
    passed: a.passed + b.passed,
    failed: a.failed + b.failed,
    skipped: a.skipped + b.skipped,
    failures: [...a.failures, ...b.failures],
  };
}

export interface Suite {
  title: string;
  /** Its commands are ended when its time is over. */
  run: (run: Run) => Promise<Counts>;
  /**
   * Minutes after which something hangs: three times what it takes on two cores, and what it builds the first time. What
   * hangs then costs one suite, and all others are still run within the time of the whole.
   */
  minutes: number;
  /** The suite that comes before it, also when it is run alone. */
  after?: string;
}

/** In the order in which `all` runs them. */
export const suites: Record<string, Suite> = {
  programs: { title: 'Programs that tests need', run: programs, minutes: 30 },
  native: { title: 'C++ tests', run: (run) => native(run, 'release'), minutes: 30 },
  unit: { title: 'TypeScript tests', run: unit, minutes: 40, after: 'programs' },
  lint: { title: 'Types and style', run: lint, minutes: 15 },
  verify: { title: 'Generated files', run: verify, minutes: 5 },
  e2e: { title: 'Kubernetes', run: kubernetes, minutes: 40, after: 'programs' },
  fuzz: { title: 'Fuzzers', run: fuzz, minutes: 10 },
  asan: { title: 'C++ tests under AddressSanitizer and UBSan', run: (run) => native(run, 'asan'), minutes: 30 },
  tsan: { title: 'C++ tests under ThreadSanitizer', run: (run) => native(run, 'tsan'), minutes: 30 },
};
