import { globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { node, type Outcome, type Run, root } from './command.ts';
import { add, type Counts, failedStep, step } from './counts.ts';
import { buildNative, nativeTests } from './ctest.ts';
import { type MochaCall, mocha, sideBySide, without } from './mocha.ts';
import { rdmaTests } from './rdma.ts';
import { generatedFiles, styleCheck, testFiles } from './sources.ts';

/** Builds the Go programs that tests start. Without root they may be out of reach, and tests that need them are skipped. */
async function programs(run: Run): Promise<Counts> {
  const built = await run(node, ['scripts/tools/get.ts', 'all']);
  if (built.code !== 3 || process.getuid?.() === 0) return step('programs that tests need', built);
  return { passed: 0, failed: 0, skipped: 1, failures: [] };
}

/** Rooms in two processes that take about as long, and the walk through the product. Nothing here builds a Go program. */
async function unit(run: Run): Promise<Counts> {
  const { walk, agent, operator, slow, timed, onApiServer } = testFiles;
  return await sideBySide(
    run,
    ['unit-agent', [...agent, ...without(slow, timed)]],
    ['unit-operator', [...operator, ...walk, ...without(timed, onApiServer)]],
    { HEARTH_TOOLS: 'none' },
  );
}

/** The other tests of TypeScript that need no cluster, the room tests that need Go programs among them. */
async function slow(run: Run): Promise<Counts> {
  const { measured, walk, upgrade, slow, timed, onApiServer } = testFiles;
  const needTools = ['node-agent/src/{store,daemon,origins}/**/*.test.ts'];
  const alone = await mocha(run, ['slow-measured', measured]);
  const others: MochaCall = ['slow-programs', [...slow, ...timed, ...without(measured, walk, upgrade, onApiServer)]];
  return add(alone.counts, await sideBySide(run, others, ['slow-rooms', needTools]));
}

async function upgrade(run: Run): Promise<Counts> {
  return (await mocha(run, ['upgrade', testFiles.upgrade])).counts;
}

const clusterArguments = ['--config', 'e2e/.mocharc.json', '--exit'];

async function smoke(run: Run): Promise<Counts> {
  return (await mocha(run, ['smoke', [...clusterArguments, ...testFiles.smoke]], { env: { HEARTH_E2E_NODES: '1' } }))
    .counts;
}

/** Tests on nodes wait most of their time, so the others run beside them. */
async function kubernetes(run: Run): Promise<Counts> {
  const { onNodes, kubernetes, onApiServer } = testFiles;
  return await sideBySide(
    run,
    ['e2e', [...clusterArguments, ...onNodes]],
    ['e2e-api-servers', [...clusterArguments, ...kubernetes, ...onApiServer, ...without(onNodes)]],
  );
}

/** The packages of engines, of which pip installs 7 GB once on a machine. */
async function plugins(run: Run): Promise<Counts> {
  return (await mocha(run, ['plugins', testFiles.plugins])).counts;
}

async function pythonPackage(run: Run): Promise<Counts> {
  const own = step('clients/python', await run('scripts/test-wheel.sh', []));
  return add(own, step('clients/python for arm64', await run('scripts/test-wheel-arm64.sh', [])));
}

async function soak(run: Run): Promise<Counts> {
  const seconds = process.env.SOAK_SECONDS ?? '300';
  return step(`soak for ${seconds} s`, await run(node, ['e2e/soak/main.ts'], { env: { SOAK_SECONDS: seconds } }));
}

/** Reads several files of a room at once, as the sanitizers compile them, because most of the time goes into headers. */
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
  // Unity files include sources on purpose.
  const clangTidy = `clang-tidy-19 -p ${folder} --quiet --checks=-bugprone-suspicious-include 2> build/clang-tidy.log`;
  return await run('bash', ['-c', `xargs -P2 -n1 -a ${list} ${clangTidy}`]);
}

async function lint(run: Run): Promise<Counts> {
  const format =
    "git ls-files 'native/*.h' 'native/*.cc' 'integrations/*.h' 'integrations/*.cc' | grep -v /generated/ | xargs -P2 -n80 clang-format --dry-run -Werror";
  return [
    step('tsc', await run('node_modules/.bin/tsc', ['-b'])),
    step('biome', await run('node_modules/.bin/biome', styleCheck)),
    step('clang-format', await run('bash', ['-c', format])),
  ].reduce(add);
}

/** Generated files are written again and must not differ from the committed ones. */
async function verify(run: Run): Promise<Counts> {
  const counts: Counts[] = [];
  for (const script of [...globSync('scripts/generate-*.ts', { cwd: root }).sort(), 'monitoring/generate.ts']) {
    counts.push(step(script, await run(node, [script], { quiet: true })));
  }
  const changed = await run('git', ['diff', '--exit-code', '--stat', '--', ...generatedFiles]);
  counts.push(step('generated files equal the committed ones', changed));
  // A diff does not see files that were never committed.
  const unknown = await run('git', ['ls-files', '--others', '--exclude-standard', '--', ...generatedFiles], {
    quiet: true,
  });
  if (unknown.output !== '') console.log(`generated, and not committed:\n${unknown.output}`);
  const code = unknown.output === '' ? unknown.code : 1;
  counts.push(step('generated files are committed', { ...unknown, code }));
  return counts.reduce(add);
}

/** Sources of the fuzzers, and the names of their programs in the same order. */
function fuzzers(): { sources: string[]; targets: string[] } {
  const sources = globSync('native/*/*_fuzz.cc', { cwd: root }).sort();
  return { sources, targets: sources.map((path) => `hearth_${path.split('/').at(-1)?.replace('.cc', '')}`) };
}

async function fuzz(run: Run): Promise<Counts> {
  const seconds = process.env.FUZZ_SECONDS ?? '60';
  const { sources, targets } = fuzzers();
  const built = await buildNative(run, 'fuzz', targets);
  if (built.code !== 0) return failedStep('the build of the fuzzers');
  // The agent that answers the fuzzer of libgd2fs.
  const agent = await buildNative(run, 'release', ['hearth_gd2fs_serve']);
  if (agent.code !== 0) return failedStep('the build of the agent for fuzzers');
  const env = { HEARTH_GD2FS_SERVE: join(root, 'build/release/client_tests/hearth_gd2fs_serve') };
  const outcomes = sources.map(async (path, index) => {
    const program = `build/fuzz/${path.split('/')[1]}/${targets[index]}`;
    const corpus = join(root, 'build/corpus', targets[index] ?? '');
    mkdirSync(corpus, { recursive: true });
    const options = [`-max_total_time=${seconds}`, '-print_final_stats=1'];
    const outcome = await run(program, [...options, corpus], { quiet: true, env });
    const executed = /number_of_executed_units: (\d+)/.exec(outcome.output)?.[1];
    console.log(`  ${targets[index]}: ${executed ?? 'no'} inputs in ${seconds} s, exit ${outcome.code}`);
    if (outcome.code !== 0) process.stdout.write(outcome.output.slice(-4000));
    return step(path, outcome);
  });
  return (await Promise.all(outcomes)).reduce(add);
}

export interface Suite {
  title: string;
  /** Ends its commands when the time of the suite is over. */
  run: (run: Run) => Promise<Counts>;
  /** Deadline that only a hanging suite meets: three times its duration on two cores, and its first build. */
  minutes: number;
  /** The suite that comes before it, also when it is run alone. */
  after?: string;
}

export const suites: Record<string, Suite> = {
  native: { title: 'C++ tests', run: (run) => nativeTests(run, { preset: 'release', slow: 'without' }), minutes: 25 },
  unit: { title: 'TypeScript tests', run: unit, minutes: 25 },
  lint: { title: 'Types and style', run: lint, minutes: 10 },
  verify: { title: 'Generated files', run: verify, minutes: 5 },
  programs: { title: 'Programs that tests need', run: programs, minutes: 60 },
  smoke: { title: 'Smoke test on a cluster of one node', run: smoke, minutes: 20, after: 'programs' },
  'slow-native': {
    title: 'Slow C++ tests',
    run: (run) => nativeTests(run, { preset: 'release', slow: 'only' }),
    minutes: 30,
  },
  slow: { title: 'Slow TypeScript tests', run: slow, minutes: 45, after: 'programs' },
  tidy: { title: 'clang-tidy', run: async (run) => step('clang-tidy', await clangTidy(run)), minutes: 30 },
  e2e: { title: 'Kubernetes', run: kubernetes, minutes: 70, after: 'programs' },
  upgrade: { title: 'Upgrade from the previous release', run: upgrade, minutes: 45 },
  fuzz: { title: 'Fuzzers', run: fuzz, minutes: 20 },
  asan: {
    title: 'C++ tests under AddressSanitizer and UBSan',
    run: (run) => nativeTests(run, { preset: 'asan', slow: 'with' }),
    minutes: 60,
  },
  tsan: {
    title: 'C++ tests under ThreadSanitizer',
    run: (run) => nativeTests(run, { preset: 'tsan', slow: 'with' }),
    minutes: 60,
  },
  python: {
    title: 'The Python package in a fresh environment',
    run: pythonPackage,
    minutes: 25,
  },
  plugins: { title: 'File tiers of engines on scratch volumes', run: plugins, minutes: 60 },
  fio: {
    title: 'fio through libgd2fs',
    run: async (run) => step('clients/fio', await run('clients/fio/test.sh', [])),
    minutes: 10,
  },
  autoscalers: {
    title: 'Karpenter and the scheduler on objects of the operator',
    run: async (run) => step('e2e/autoscalers', await run('e2e/autoscalers/test.sh', [])),
    minutes: 20,
  },
  rdma: { title: 'RDMA on a kernel in an emulated machine', run: rdmaTests, minutes: 30 },
  soak: { title: 'Soak', run: soak, minutes: 30 },
};

/** The suites of `make test`, `make test-slow` and `make test-all`, in the order in which they run. */
export const plans: Record<string, string[]> = {
  gate: ['native', 'unit', 'lint', 'verify'],
  'test-slow': ['programs', 'slow-native', 'slow'],
  all: [
    ...['programs', 'smoke', 'native', 'unit', 'lint', 'verify', 'slow-native', 'slow', 'tidy'],
    ...['e2e', 'autoscalers', 'upgrade', 'python', 'plugins', 'fio', 'rdma', 'fuzz', 'asan', 'tsan', 'soak'],
  ],
};
