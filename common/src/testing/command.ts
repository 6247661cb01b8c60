import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';

export interface Outcome {
  /** Exit code; 128 + signal number after a signal. */
  code: number;
  stdout: string;
  stderr: string;
}

export interface CommandOptions {
  /** Time after which the program is killed, ms; Infinity: never. */
  timeoutMs?: number;
  /** Added to this process's environment; undefined removes a variable. */
  environment?: Record<string, string | undefined>;
  input?: string;
  /** A file to append the output to instead of keeping it. */
  log?: string;
  /** Runs in its own session, out of reach of Ctrl-C. */
  detached?: boolean;
}

/** A command that takes longer has failed rather than being slow; `make bench` measures speed. */
const longestMs = 300_000;

/**
 * Starts a program; `said` grows with its output. `outcome` never rejects. The program is killed after five minutes
 * unless the options say otherwise.
 */
export function start(
  program: string,
  args: readonly string[],
  options: CommandOptions = {},
): { child: ChildProcess; outcome: Promise<Outcome>; said: { stdout: string; stderr: string } } {
  const { timeoutMs: timeout = longestMs, detached = false } = options;
  const log = options.log === undefined ? undefined : openSync(options.log, 'a');
  const child = spawn(program, args, {
    stdio: [options.input === undefined ? 'ignore' : 'pipe', log ?? 'pipe', log ?? 'pipe'],
    detached,
    env: { ...process.env, ...options.environment },
  });
  if (log !== undefined) closeSync(log);
  // spawn()'s own timeout keeps running, and keeps this process alive, when the program cannot be started.
  const limit = Number.isFinite(timeout) ? setTimeout(() => child.kill('SIGKILL'), timeout) : undefined;
  // A program that exits without reading its input reports its own error.
  child.stdin?.on('error', () => {}).end(options.input);
  const said = { stdout: '', stderr: '' };
  for (const stream of ['stdout', 'stderr'] as const) {
    child[stream]?.setEncoding('utf8').on('data', (text: string) => {
      said[stream] += text;
    });
  }
  const outcome = new Promise<Outcome>((resolve) => {
    child.once('error', () => clearTimeout(limit)).once('exit', () => clearTimeout(limit));
    child.once('error', ({ message }) => resolve({ code: 127, ...said, stderr: `${said.stderr}${message}` }));
    child.once('close', (code, signal) => {
      const end = signal === null ? '' : `(ended by ${signal})`;
      resolve({ code: code ?? 128, ...said, stderr: `${said.stderr}${end}` });
    });
  });
  return { child, outcome, said };
}

export function run(program: string, args: readonly string[], options: CommandOptions = {}): Promise<Outcome> {
  return start(program, args, options).outcome;
}

/** Standard output of a program that must succeed. */
export async function ok(outcome: Promise<Outcome>): Promise<string> {
  const { code, stdout, stderr } = await outcome;
  assert.equal(code, 0, stderr);
  return stdout;
}

/** Runs a program that must succeed and returns its standard output; throws an error with its last output otherwise. */
export async function output(program: string, args: readonly string[], options: CommandOptions = {}): Promise<string> {
  const { code, stdout, stderr } = await run(program, args, options);
  if (code === 0) return stdout;
  const words = stderr.trim().slice(-2000) || `exit code ${code}`;
  throw new Error(`${[program, ...args].join(' ').slice(0, 500)}: ${words}`);
}

/** Like `output`, with a limit of ten minutes. */
export function must(program: string, ...args: string[]): Promise<string> {
  return output(program, args, { timeoutMs: 600_000 });
}
