import { resolve } from 'node:path';
import { Writable } from 'node:stream';
import type { AgentConfig, Setting } from '@hearth/node-agent/config';
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

  constructor(terminal: Terminal, options: GlobalOptions) {
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

  /** The same session, whose output goes to `write` instead. */
  recording(write: (text: string) => void): Session {
    const sink = new Writable({
      decodeStrings: false,
      write: (chunk: string, _encoding, done) => {
        write(chunk);
        done();
      },
    });
    const options = { socket: this.socket, json: this.json, timeout: this.timeoutMilliseconds / 1000 };
    return new Session({ ...this.terminal, stdout: sink }, options);
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

/** Runs an agent in this process until the signal; ends orderly. */
export type AgentRunner = (config: AgentConfig, signal: AbortSignal) => Promise<void>;

/** The ground of the command tree: a terminal, and the place for a command's exit code. */
export interface CommandContext {
  terminal: Terminal;
  runAgent: AgentRunner;
  setExit: (code: number) => void;
  /** Of the agent's configuration; empty when the command line cannot be about the agent (they load slowly). */
  agentSettings: readonly Setting[];
}

/** The action of a command. Its number, if any, is the exit code; errors are `HearthError`. */
export function act<Options, Texts extends unknown[]>(
  context: CommandContext,
  run: (session: Session, options: Options, ...texts: Texts) => Promise<number | undefined>,
) {
  return async (...received: unknown[]): Promise<void> => {
    // commander gives the arguments, the options and the command itself.
    const command = received.at(-1) as Command;
    const texts = received.slice(0, -2) as Texts;
    const code = await run(
      new Session(context.terminal, command.optsWithGlobals<GlobalOptions>()),
      command.opts() as Options,
      ...texts,
    );
    if (code !== undefined) context.setExit(code);
  };
}

/** Examples at the end of a command's help, without the program's name: it is the one in use. */
export function examples(context: CommandContext, ...lines: string[]): string {
  return `\nExamples:\n${lines.map((line) => `  ${context.terminal.program} ${line}`).join('\n')}`;
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
