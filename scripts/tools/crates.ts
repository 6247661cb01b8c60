import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { cacheFolder, ToolUnavailable } from './cache.ts';
import { lock } from './lock.ts';

const execute = promisify(execFile);

/** Programs that come from crates of their own name: the version, and the oldest Rust that compiles it. */
const crates: Record<string, { version: string; rust: string }> = {
  fsx: { version: '0.3.2', rust: '1.82' },
  pjdfstest: { version: '0.2.2', rust: '1.85' },
};

export const crateNames = Object.keys(crates);

/** Rust is often installed where its own instructions say, which is on the PATH of few who are not developers. */
const environment = () => ({ ...process.env, PATH: `${process.env.PATH}:${join(homedir(), '.cargo/bin')}` });

/** The path of a crate's program, compiled when this machine has not compiled it before (a minute, once). */
export async function crateProgram(name: string): Promise<string> {
  const crate = crates[name];
  if (crate === undefined) throw new ToolUnavailable(`There is no crate ${name}; there are ${crateNames.join(', ')}.`);
  const { version, rust } = crate;
  const folder = join(cacheFolder, `${name}-${version}`);
  const program = join(folder, 'bin', name);
  if (existsSync(program)) return program;
  mkdirSync(folder, { recursive: true });
  await using _ = await lock(join(folder, '.lock'));
  if (existsSync(program)) return program;
  await needRust(name, rust);
  console.error(`compiling ${name} ${version} (once)`);
  const partial = join(folder, '.partial');
  rmSync(partial, { recursive: true, force: true });
  const words = ['install', '--quiet', '--locked', '--no-track', '--root', partial, `${name}@${version}`];
  try {
    await execute('cargo', words, { env: environment(), maxBuffer: 64 << 20, cwd: '/' });
  } catch (error) {
    const { stderr } = error as { stderr?: string };
    const question = 'cargo install failed. Is the registry of crates reachable?';
    throw new ToolUnavailable(
      `${name} ${version} cannot be compiled: ${question} Its messages:\n${stderr || String(error)}`,
    );
  }
  rmSync(join(folder, 'bin'), { recursive: true, force: true });
  renameSync(join(partial, 'bin'), join(folder, 'bin'));
  rmSync(partial, { recursive: true });
  return program;
}

async function needRust(name: string, wanted: string): Promise<void> {
  const found = await execute('rustc', ['--version'], { env: environment() }).then(
    ({ stdout }) => /^rustc (\S+)/.exec(stdout)?.[1],
    () => undefined,
  );
  if (found === undefined) {
    throw new ToolUnavailable(`${name} needs Rust ${wanted} or newer, and there is none; install Rust`);
  }
  if (found.localeCompare(wanted, 'en', { numeric: true }) < 0) {
    throw new ToolUnavailable(`${name} needs Rust ${wanted} or newer, and this is ${found}; install a newer one`);
  }
}
