import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { cacheFolder, ToolUnavailable } from './cache.ts';
import { lock } from './lock.ts';

const execute = promisify(execFile);

/** Interpreters of Python with one package and what it needs. */
const environments: Record<string, { package: string; version: string }> = {
  'numba-python': { package: 'numba', version: '0.68.1' },
};

export const environmentNames = Object.keys(environments);

/** The path of an environment's interpreter, installed when this machine has not installed it before (a minute, once). */
export async function environmentPython(name: string): Promise<string> {
  const environment = environments[name];
  if (environment === undefined) {
    throw new ToolUnavailable(`There is no environment ${name}; there are ${environmentNames.join(', ')}.`);
  }
  const wanted = `${environment.package}==${environment.version}`;
  const folder = join(cacheFolder, `python-${environment.package}-${environment.version}`);
  const python = join(folder, 'venv/bin/python');
  // An environment has paths of its folder in it, so it is not moved into place.
  const complete = join(folder, 'complete');
  if (existsSync(complete)) return python;
  mkdirSync(folder, { recursive: true });
  await using _ = await lock(join(folder, '.lock'));
  if (existsSync(complete)) return python;
  console.error(`installing ${wanted} (once)`);
  rmSync(join(folder, 'venv'), { recursive: true, force: true });
  try {
    await execute('python3', ['-m', 'venv', join(folder, 'venv')]);
    await execute(python, ['-m', 'pip', 'install', '--quiet', '--only-binary', ':all:', wanted], {
      maxBuffer: 64 << 20,
    });
  } catch (error) {
    const { stderr } = error as { stderr?: string };
    const question = 'pip install failed. Is the registry of Python packages reachable?';
    throw new ToolUnavailable(`${wanted} cannot be installed: ${question} Its messages:\n${stderr || String(error)}`);
  }
  writeFileSync(complete, '');
  return python;
}
