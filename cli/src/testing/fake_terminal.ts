import { Writable } from 'node:stream';
import { type Clock, systemClock } from '@hearth/common';
import type { AgentConfig } from '@hearth/node-agent/config';
import { hearthProgram } from '../program.ts';
import { type ProgramBuilder, run } from '../run.ts';
import type { Terminal } from '../terminal.ts';

/** The output of one command line, and its exit code. */
export interface Outcome {
  code: number;
  out: string;
  err: string;
}

export interface RunOptions {
  environment?: Record<string, string>;
  interactive?: boolean;
  colour?: boolean;
  columns?: number;
  rows?: number;
  program?: string;
  directory?: string;
  /** Called with each text written, to interrupt or look at the right moment. */
  onOutput?: (text: string) => void;
  interrupt?: AbortSignal;
  clock?: Clock;
  runAgent?: (config: AgentConfig, signal: AbortSignal) => Promise<void>;
  /** Another program than `hearth`. */
  build?: ProgramBuilder;
}

/** Runs a command line of the real program on a terminal that records. */
export async function runCommand(words: string[], options: RunOptions = {}): Promise<Outcome> {
  const outcome: Outcome = { code: -1, out: '', err: '' };
  const stream = (name: 'out' | 'err') =>
    new Writable({
      write: (chunk: Buffer, _encoding, done) => {
        outcome[name] += chunk.toString();
        options.onOutput?.(chunk.toString());
        done();
      },
    });
  const terminal: Terminal = {
    program: options.program ?? 'hearth',
    environment: options.environment ?? {},
    directory: options.directory ?? '/somewhere',
    stdout: stream('out'),
    stderr: stream('err'),
    interactive: options.interactive ?? false,
    colour: options.colour ?? false,
    unicode: false,
    columns: () => options.columns ?? Number.MAX_SAFE_INTEGER,
    rows: () => options.rows ?? Number.MAX_SAFE_INTEGER,
    interrupt: options.interrupt ?? new AbortController().signal,
    clock: options.clock ?? systemClock,
  };
  outcome.code = await run(
    words,
    terminal,
    options.build ?? hearthProgram(words, options.runAgent ?? (async () => undefined)),
  );
  return outcome;
}

/** The values of output that has one JSON value a line. */
export function jsonLines(text: string): Record<string, unknown>[] {
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}
