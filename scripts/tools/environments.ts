import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { cacheFolder, ToolUnavailable } from './cache.ts';
import { lock } from './lock.ts';

const execute = promisify(execFile);

/** The packages of an interpreter: words of pip, and a name that changes with them. */
interface Environment {
  version: string;
  packages: string[];
}

const engines = join(import.meta.dirname, '../../e2e/plugins/requirements.txt');

const environments: Record<string, Environment> = {
  'numba-python': { version: 'numba-0.68.1', packages: ['numba==0.68.1'] },
  // By itself, as its versions since 1.4 import no PyTorch.
  'nixl-python': { version: 'nixl-1.5.1', packages: ['--no-deps', 'nixl-cu12==1.5.1', 'numpy==2.4.6'] },
  // The engines ask for several versions of PyTorch and for packages of devices; the list has what their file tiers import.
  'engines-python': {
    version: `engines-${createHash('sha256').update(readFileSync(engines)).digest('hex').slice(0, 12)}`,
    packages: ['--no-deps', '--requirement', engines],
  },
};

export const environmentNames = Object.keys(environments);

/** The path of an environment's interpreter, installed when this machine has not installed it before (minutes, once). */
export async function environmentPython(name: string): Promise<string> {
  const environment = environments[name];
  if (environment === undefined) {
    throw new ToolUnavailable(`There is no environment ${name}; there are ${environmentNames.join(', ')}.`);
  }
  const { version, packages } = environment;
  const folder = join(cacheFolder, `python-${version}`);
  const python = join(folder, 'venv/bin/python');
  // An environment has paths of its folder in it, so it is not moved into place.
  const complete = join(folder, 'complete');
  if (existsSync(complete)) return python;
  mkdirSync(folder, { recursive: true });
  await using _ = await lock(join(folder, '.lock'));
  if (existsSync(complete)) return python;
  console.error(`installing ${version} (once)`);
  rmSync(join(folder, 'venv'), { recursive: true, force: true });
  try {
    await execute('python3', ['-m', 'venv', join(folder, 'venv')]);
    const install = ['-m', 'pip', 'install', '--quiet', '--no-cache-dir', '--only-binary', ':all:', ...packages];
    await execute(python, install, { maxBuffer: 64 << 20 });
  } catch (error) {
    const { stderr } = error as { stderr?: string };
    const question = 'pip install failed. Is the registry of Python packages reachable?';
    throw new ToolUnavailable(`${version} cannot be installed: ${question} Its messages:\n${stderr || String(error)}`);
  }
  writeFileSync(complete, '');
  return python;
}
