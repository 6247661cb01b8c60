import { resolve } from 'node:path';
import { HearthError } from '@hearth/common';
import { type Command, InvalidArgumentError } from 'commander';
import { AgentClient } from './client/agent_client.ts';
import { toJson } from './format/json.ts';
import { type Column, renderTable } from './format/table.ts';
import type { Terminal } from './terminal.ts';

export const defaultSocket = '/run/hearth/agent.sock';
export const defaultTimeoutSeconds = 30;

interface GlobalOptions {
  socket?: string;
  json?: boolean;
  timeout?: number;
}

/** One run of one command: its global options, its output and its connection. */
export class Session {
  readonly terminal: Terminal;
  readonly json: boolean;
  readonly socket: string;
  readonly timeoutMilliseconds: number;

  constructor(terminal: Terminal, command: Command) {
    const options = command.optsWithGlobals<GlobalOptions>();
    this.terminal = terminal;
    this.json = options.json === true;
    this.timeoutMilliseconds = (options.timeout ?? defaultTimeoutSeconds) * 1000;
    this.socket = resolve(terminal.directory, options.socket ?? (terminal.environment.HEARTH_SOCKET || defaultSocket));
  }

  /** Runs `body` with a connection and closes it. */
  async withAgent<Result>(body: (agent: AgentClient) => Promise<Result>): Promise<Result> {
    const agent = await AgentClient.connect({
      socket: this.socket,
      timeoutMilliseconds: this.timeoutMilliseconds,
      signal: this.terminal.interrupt,
    });
    try {
      return await body(agent);
    } finally {
      agent.close();
    }
  }

  get interrupted(): boolean {
    return this.terminal.interrupt.aborted;
  }

  print(...lines: string[]): void {
    if (lines.length > 0) this.terminal.stdout.write(`${lines.join('\n')}\n`);
  }

  /** For people, beside what a program reads. */
  note(line: string): void {
    this.terminal.stderr.write(`${line}\n`);
  }

  /** One JSON value on one line. */
  printJson(value: unknown): void {
    this.print(toJson(value));
  }

  printTable<Row>(columns: Column<Row>[], rows: Row[]): void {
    this.print(...renderTable(columns, rows, { columns: this.terminal.columns(), colour: this.terminal.colour }));
  }
}

/** The action of a command: `run(session, options, ...arguments)`. Its number, if any, is the exit code. */
export function act<Options>(
  terminal: Terminal,
  setExit: (code: number) => void,
  run: (session: Session, options: Options, ...texts: never[]) => Promise<number | undefined>,
) {
  return async function (this: Command, ...received: unknown[]): Promise<void> {
    const command = received.at(-1) as Command;
    const texts = received.slice(0, -2);
    const code = await run(new Session(terminal, command), command.opts() as Options, ...(texts as never[]));
    if (code !== undefined) setExit(code);
  };
}

/** For repeated options: `--node a --node b`, or `--node a,b`. */
export function collect(text: string, former: string[] | undefined): string[] {
  const parts = text.split(',').filter((part) => part !== '');
  if (parts.length === 0) throw new InvalidArgumentError('It must not be empty.');
  return [...(former ?? []), ...parts];
}

/** For repeated options whose values may hold commas. */
export function collectWhole(text: string, former: string[] | undefined): string[] {
  if (text === '') throw new InvalidArgumentError('It must not be empty.');
  return [...(former ?? []), text];
}

/** A parser for options that are whole numbers within bounds. */
export function wholeNumber(least: number, most: number): (text: string) => number {
  return (text) => {
    const value = /^\d{1,10}$/.test(text) ? Number(text) : Number.NaN;
    if (!(value >= least && value <= most)) {
      throw new InvalidArgumentError(`It must be a whole number from ${least} to ${most}.`);
    }
    return value;
  };
}

/** Interrupted by the user: exit code 130 and no message beyond what was said. */
export function interrupted(): HearthError {
  return new HearthError('Cancelled', 'interrupted');
}
