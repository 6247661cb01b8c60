import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

export const root = join(import.meta.dirname, '../..');
export const node = join(root, 'node_modules/.bin/node');
export interface Outcome {
  code: number;
  output: string;
}

export interface RunOptions {
  quiet?: boolean;
  env?: NodeJS.ProcessEnv;
  timeoutMs?: number;
}

export type Run = typeof run;

/** Of a step, on a machine that is busy with something else. */
const stepMs = 60 * 60_000;
/** Between SIGTERM and SIGKILL. */
const graceMs = 15_000;
/** How long output is waited for after a command has ended: what it has left running may hold its pipes for ever. */
const drainMs = 5_000;

/** Commands that run now. Each is a process group of its own, which Ctrl-C does not reach: they end with this process. */
const running = new Set<ChildProcess>();
process.on('exit', () => {
  for (const child of running) signalGroup(child, 'SIGTERM');
});

function signalGroup(child: ChildProcess, signal: NodeJS.Signals): void {
  try {
    if (child.pid !== undefined) process.kill(-child.pid, signal);
  } catch {
    // All of it has ended.
  }
}

interface Ended {
  code: number | null;
  signal: NodeJS.Signals | null;
  /** It had to be ended, as it took too long. */
  late: boolean;
  /** Its output is still held by what it has left running. */
  held: boolean;
}

/** Ends when the command has; where that takes too long, after it was ended with all that it has started. */
async function endOf(child: ChildProcess, timeoutMs: number): Promise<Ended> {
  const closed = new Promise<'closed'>((resolve) => child.once('close', () => resolve('closed')));
  const exited = new Promise<Pick<Ended, 'code' | 'signal'>>((resolve) =>
    child.once('exit', (code, signal) => resolve({ code, signal })),
  );
  let late = false;
  let kill: NodeJS.Timeout | undefined;
  const limit = setTimeout(() => {
    late = true;
    signalGroup(child, 'SIGTERM');
    kill = setTimeout(() => signalGroup(child, 'SIGKILL'), graceMs);
  }, timeoutMs);
  const end = await exited;
  clearTimeout(limit);
  clearTimeout(kill);
  // A command that ended in time may leave daemons that are meant to stay.
  if (late) signalGroup(child, 'SIGKILL');
  const drained = new AbortController();
  const held = sleep(drainMs, 'held' as const, { signal: drained.signal }).catch(() => 'closed' as const);
  const drain = await Promise.race([closed, held]);
  drained.abort();
  return { ...end, late, held: drain === 'held' };
}

/** Nothing where there is nothing to say. */
function remarkOn({ code, signal, late, held }: Ended, words: string, timeoutMs: number): string {
  const reasons = [
    late ? `it took longer than ${(timeoutMs / 60_000).toFixed(1)} minutes` : [],
    held ? 'what it has started still holds its output' : [],
  ].flat();
  if (!signal && reasons.length === 0) return '';
  const how = signal ? `was ended by ${signal}` : `ended with exit code ${code}`;
  return `\n${words} ${how}${reasons.length > 0 ? `: ${reasons.join(', and ')}` : ''}\n`;
}

/**
 * Runs a command in the repository's root; its output goes through to ours unless `quiet`, and is kept. A command
 * that takes longer than `timeoutMs` (an hour) is ended with all that it has started, and a line says so. Resolves when the command has ended, also
 * when processes that it left behind hold its output.
 */
export function run(command: string, args: string[], options: RunOptions = {}): Promise<Outcome> {
  return new Promise((resolve) => {
    const { timeoutMs = stepMs, quiet = false } = options;
    const child = spawn(command, args, {
      cwd: root,
      env: { ...process.env, ...options.env },
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    });
    running.add(child);
    const parts: Buffer[] = [];
    const take = (stream: NodeJS.WriteStream) => (chunk: Buffer) => {
      parts.push(chunk);
      if (!quiet) stream.write(chunk);
    };
    child.stdout.on('data', take(process.stdout));
    child.stderr.on('data', take(process.stderr));
    child.on('error', (error) => {
      running.delete(child);
      resolve({ code: 127, output: `${command}: ${error.message}` });
    });
    child.on('spawn', async () => {
      const ended = await endOf(child, timeoutMs);
      running.delete(child);
      child.stdout.destroy();
      child.stderr.destroy();
      const remark = remarkOn(ended, [command, ...args].join(' ').slice(0, 200), timeoutMs);
      if (remark !== '') process.stderr.write(remark);
      resolve({ code: ended.late ? 1 : (ended.code ?? 1), output: Buffer.concat(parts).toString() + remark });
    });
  });
}

/** As `run`, for commands that have to have ended by `deadline`, of `performance.now()`. */
export const runUntil =
  (deadline: number): Run =>
  (command, args, options = {}) => {
    const left = Math.max(deadline - performance.now(), 0);
    return run(command, args, { ...options, timeoutMs: Math.min(left, options.timeoutMs ?? left) });
  };
