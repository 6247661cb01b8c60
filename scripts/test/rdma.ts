import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { resultsFolder, runInMachine } from '../rdma/machine.ts';
import { ratioLines } from '../rdma/ratios.ts';
import { ToolUnavailable } from '../tools/cache.ts';
import type { Run } from './command.ts';
import { add, type Counts, failedStep, nothing, step } from './counts.ts';
import { buildNative } from './ctest.ts';

const targets = ['hearth_verbs_rxe_test', 'hearth_engine_rxe_test', 'hearth-rdma-bench', 'hearth-probe'];

/** The tests of RDMA in an emulated machine with two soft-RoCE devices; skipped where there is no such machine. */
export async function rdmaTests(run: Run): Promise<Counts> {
  const built = await buildNative(run, 'release', targets);
  const build = step('the build of the tests of RDMA', built);
  if (built.code !== 0) return build;
  try {
    const outcome = await runInMachine(run, 'test.sh');
    const machine = outcome.code === 0 && stepLines().length > 0 ? nothing : failedStep('the emulated machine');
    for (const line of ratioLines(resultsFolder)) console.log(line);
    return [build, machine, ...reports(), steps()].reduce(add);
  } catch (thrown) {
    if (!(thrown instanceof ToolUnavailable)) throw thrown;
    console.log(`  skipped: ${thrown.message}`);
    return add(build, { ...nothing, skipped: 1 });
  }
}

const stepLines = (): string[] =>
  globSync('steps', { cwd: resultsFolder })
    .flatMap((path) => readFileSync(join(resultsFolder, path), 'utf8').split('\n'))
    .filter((line) => line !== '');

function steps(): Counts {
  return stepLines()
    .map((line) => {
      const [code = '', name = ''] = /^(\d+) (.*)$/.exec(line)?.slice(1) ?? [];
      return step(name, { code: Number(code), output: '' });
    })
    .reduce(add, nothing);
}

/** The report of GoogleTest on each program. */
function reports(): Counts[] {
  return globSync('*.xml', { cwd: resultsFolder }).map((path) => {
    const xml = readFileSync(join(resultsFolder, path), 'utf8');
    const cases = [...xml.matchAll(/<testcase name="([^"]*)"([^>]*?)(?:\/>|>(.*?)<\/testcase>)/gs)];
    return cases.map(([, name = '', about = '', inside = '']) => caseOf(name, about, inside)).reduce(add, nothing);
  });
}

function caseOf(name: string, about: string, inside: string): Counts {
  if (about.includes('result="skipped"')) return { ...nothing, skipped: 1 };
  const [, reason] = /<failure message="([^"]*)"/.exec(inside) ?? [];
  return reason === undefined ? { ...nothing, passed: 1 } : failedStep(name, plain(reason));
}

const plain = (text: string): string =>
  text
    .replace(/&#x0A;|\s+/g, ' ')
    .replace(/&(lt|gt|quot|apos);/g, (_all, name: string) => ({ lt: '<', gt: '>', quot: '"', apos: "'" })[name] ?? '')
    .replaceAll('&amp;', '&');
