import { spawn } from 'node:child_process';
import type { Readable } from 'node:stream';
import { type Clock, HearthError, systemClock } from '@hearth/common';

export interface ChildOptions {
  deadlineMs: number;
  /** Passed to the child as 3, 4, ... */
  descriptors?: number[];
  clock?: Clock;
}

export interface ChildOutcome {
  code: number | null;
  late: boolean;
  /** Standard output, at most 2 KiB. */
  output: string;
  /** Standard error in English, at most 2 KiB. */
  message: string;
}

const longestMessage = 2048;

/** Waits for a killed child, too, whose caller holds locks. Throws `Unsupported` for a missing program. */
export async function runChild(program: string, args: string[], options: ChildOptions): Promise<ChildOutcome> {
  const child = spawn(program, args, {
    stdio: ['ignore', 'pipe', 'pipe', ...(options.descriptors ?? [])],
    env: { PATH: process.env.PATH ?? '/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C' },
  });
  let late = false;
  const { clock = systemClock, deadlineMs } = options;
  const cancel = clock.schedule(deadlineMs, () => {
    late = true;
    child.kill('SIGKILL');
  });
  const output = collect(child.stdout);
  const message = collect(child.stderr);
  try {
    const code = await new Promise<number | null>((resolve, reject) => {
      child.once('error', reject);
      child.once('close', resolve);
    });
    return { code, late, output: output().trim(), message: oneLine(message()) };
  } catch (thrown) {
    const reason = (thrown as Error).message;
    throw new HearthError('Unsupported', `${program} cannot be run (${reason}); install it (Debian: package mount)`);
  } finally {
    cancel();
  }
}

function oneLine(text: string): string {
  return text.trim().replaceAll('\n', '; ').slice(0, longestMessage);
}

function collect(stream: Readable | null): () => string {
  let text = '';
  stream?.setEncoding('utf8').on('data', (part: string) => {
    if (text.length < longestMessage) text = (text + part).slice(0, longestMessage);
  });
  return () => text;
}
