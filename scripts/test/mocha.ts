import { existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { node, type Outcome, type Run, root } from './command.ts';
import { add, type Counts, failedStep, saysWrongBytes } from './counts.ts';

interface MochaReport {
  stats: { passes: number; failures: number; pending: number };
  failed: { title: string; file: string; reason: string }[];
}

export interface MochaRun {
  output: string;
  counts: Counts;
}

export interface MochaOptions {
  /** The output is only returned. */
  quiet?: boolean;
  env?: NodeJS.ProcessEnv;
}

/** The name of a report below build/, and the arguments of mocha. */
export type MochaCall = [name: string, args: readonly string[]];

/** Arguments of mocha: the reporter that writes counts and failures to `report`. */
const reporterOf = (report: string) => [
  '--reporter',
  join(root, 'scripts/test/mocha-reporter.cjs'),
  '--reporter-option',
  `output=${report}`,
];

/** Options of mocha that leave files out. */
export const without = (...globs: readonly (readonly string[])[]) => globs.flat().flatMap((glob) => ['--ignore', glob]);

export async function mocha(run: Run, [name, args]: MochaCall, options: MochaOptions = {}): Promise<MochaRun> {
  const report = join(root, `build/${name}.json`);
  rmSync(report, { force: true });
  mkdirSync(join(root, 'build'), { recursive: true });
  const { code, output } = await run(
    node,
    ['node_modules/mocha/bin/mocha.js', ...args, ...reporterOf(report)],
    options,
  );
  if (!existsSync(report)) return { output, counts: failedStep(`mocha ended without a report, exit code ${code}`) };
  // A glob may match nothing; a file that is named must be there.
  const lost = /Cannot find any files matching pattern "[^*"]*"/.exec(output)?.[0];
  if (lost !== undefined) return { output, counts: failedStep('files of tests', lost) };
  const { stats, failed } = JSON.parse(readFileSync(report, 'utf8')) as MochaReport;
  const failures = failed.map(({ title, file, reason }) => ({
    name: title,
    reason,
    ...(file !== '' && !saysWrongBytes(reason) && { rerun: { runner: 'mocha' as const, file } }),
  }));
  const counts = { passed: stats.passes, failed: stats.failures, skipped: stats.pending, failures };
  if (stats.failures > 0 || code === 0) return { output, counts };
  return { output, counts: add(counts, failedStep(`mocha passed, and its process ended with exit code ${code}`)) };
}

/** Runs one file again, alone, in a process of its own. */
export const rerunMocha = (run: Run, file: string): Promise<Outcome> =>
  run(node, ['node_modules/mocha/bin/mocha.js', '--exit', file], { quiet: true });

/**
 * Two mocha processes at a time, each with ports of its own (common/src/testing/free_port.ts). The output of the quiet one
 * follows when both have ended.
 */
export async function sideBySide(
  run: Run,
  loud: MochaCall,
  quiet: MochaCall,
  env: NodeJS.ProcessEnv = {},
): Promise<Counts> {
  const [shown, kept] = await Promise.all([
    mocha(run, loud, { env: { ...env, HEARTH_TEST_PORTS: '0' } }),
    mocha(run, quiet, { env: { ...env, HEARTH_TEST_PORTS: '1' }, quiet: true }),
  ]);
  process.stdout.write(kept.output);
  return add(shown.counts, kept.counts);
}
