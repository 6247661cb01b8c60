import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';

export const root = join(import.meta.dirname, '../..');

export interface Outcome {
  /** 128 + number of the signal when one ended it. */
  code: number;
  stdout: string;
  stderr: string;
}

/** What takes longer has failed, and not only been slow: how fast something is, is measured by `make bench`. */
const longestMs = 300_000;

/** Starts a program whose output is kept; `outcome` never rejects. It is killed after `timeoutMs` (five minutes; never: Infinity). */
export function start(
  program: string,
  args: string[],
  options: { timeoutMs?: number; environment?: Record<string, string>; input?: string } = {},
): { child: ChildProcess; outcome: Promise<Outcome> } {
  const { timeoutMs: timeout = longestMs } = options;
  const child = spawn(program, args, {
    stdio: [options.input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
    ...(Number.isFinite(timeout) ? { timeout } : {}),
    killSignal: 'SIGKILL',
    env: { ...process.env, ...options.environment },
  });
  // A program that ends without reading its input says why itself.
  child.stdin?.on('error', () => {}).end(options.input);
  let stdout = '';
  let stderr = '';
  child.stdout?.setEncoding('utf8').on('data', (text) => {
    stdout += text;
  });
  child.stderr?.setEncoding('utf8').on('data', (text) => {
    stderr += text;
  });
  const outcome = new Promise<Outcome>((resolve) => {
    child.once('error', (error) => resolve({ code: 127, stdout, stderr: `${stderr}${error.message}` }));
    child.once('close', (code, signal) =>
      resolve({ code: code ?? 128, stdout, stderr: signal === null ? stderr : `${stderr}(ended by ${signal})` }),
    );
  });
  return { child, outcome };
}

export function run(
  program: string,
  args: string[],
  options: { timeoutMs?: number; environment?: Record<string, string>; input?: string } = {},
): Promise<Outcome> {
  return start(program, args, options).outcome;
}

/** Polls until `condition` gives something but undefined or false, for five minutes; the error says what was waited for. */
export async function until<T>(
  what: string,
  condition: () => Promise<T | undefined | false> | T | undefined | false,
): Promise<T> {
  const end = performance.now() + longestMs;
  for (;;) {
    const value = await condition();
    if (value !== undefined && value !== false) return value;
    if (performance.now() > end) throw new Error(`${what}: not within ${longestMs / 1000} s`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
