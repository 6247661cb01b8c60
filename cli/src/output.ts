import { Writable } from 'node:stream';
import { type Command, InvalidArgumentError } from 'commander';
import { toJson } from './format/json.ts';
import { type Column, renderTable } from './format/table.ts';
import type { Terminal } from './terminal.ts';

export const defaultTimeoutSeconds = 30;

/** Options of every command of both programs. */
export interface OutputOptions {
  json?: boolean;
  timeout?: number;
}

/** One run of one command: its terminal, and its output there. */
export class Output {
  readonly terminal: Terminal;
  readonly json: boolean;
  readonly timeoutMilliseconds: number;

  constructor(terminal: Terminal, options: OutputOptions) {
    this.terminal = terminal;
    this.json = options.json === true;
    this.timeoutMilliseconds = (options.timeout ?? defaultTimeoutSeconds) * 1000;
  }

  print(...lines: string[]): void {
    if (lines.length > 0) this.terminal.stdout.write(`${lines.join('\n')}\n`);
  }

  /** A note for people, kept apart from machine-readable output. */
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

  /** The first screenful of the lines printed by `body`; the last line counts the remaining ones. */
  async screenful(body: (output: Output) => Promise<void> | void): Promise<string[]> {
    const { sink, texts } = recorder();
    const options = { json: this.json, timeout: this.timeoutMilliseconds / 1000 };
    await body(new Output({ ...this.terminal, stdout: sink }, options));
    return firstLines(texts, this.terminal.rows() - 1);
  }
}

/** A stream that records everything written to it. */
export function recorder(): { sink: Writable; texts: string[] } {
  const texts: string[] = [];
  const sink = new Writable({
    decodeStrings: false,
    write: (chunk: string, _encoding, done) => {
      texts.push(chunk);
      done();
    },
  });
  return { sink, texts };
}

/** The recorded lines that fit into `room` lines. */
export function firstLines(texts: string[], room: number): string[] {
  const all = texts.join('').trimEnd().split('\n');
  return all.length <= room ? all : [...all.slice(0, room - 1), `… ${all.length - room + 1} more lines`];
}

/** Context of a command tree: the terminal, and the command's exit code. */
export interface ActionContext {
  terminal: Terminal;
  setExit: (code: number) => void;
}

/**
 * A command's action, given the context that `open` creates from the global options. A number returned by it is the
 * exit code; errors are `HearthError`.
 */
export function actWith<Ground, Options, Texts extends unknown[]>(
  context: ActionContext,
  open: (options: never) => Ground,
  run: (ground: Ground, options: Options, ...texts: Texts) => Promise<number | undefined>,
) {
  return async (...received: unknown[]): Promise<void> => {
    // commander passes the arguments, the options and the command itself.
    const command = received.at(-1) as Command;
    const texts = received.slice(0, -2) as Texts;
    const code = await run(open(command.optsWithGlobals() as never), command.opts() as Options, ...texts);
    if (code !== undefined) context.setExit(code);
  };
}

/** The action of a command that needs no agent. */
export function actPlainly<Options, Texts extends unknown[]>(
  context: ActionContext,
  run: (output: Output, options: Options, ...texts: Texts) => Promise<number | undefined>,
) {
  return actWith(context, (options: OutputOptions) => new Output(context.terminal, options), run);
}

/** Examples at the end of a command's help, without the program's name, which varies. */
export function examples(context: ActionContext, ...lines: string[]): string {
  return `\nExamples:\n${lines.map((line) => `  ${context.terminal.program} ${line}`).join('\n')}`;
}

/** Parses repeated options: `--node a --node b`, or `--node a,b`. */
export function collect(text: string, former: string[] | undefined): string[] {
  const parts = text.split(',').filter((part) => part !== '');
  if (parts.length === 0) throw new InvalidArgumentError('It must not be empty.');
  return [...(former ?? []), ...parts];
}

/** Parses repeated options whose values may contain commas. */
export function collectWhole(text: string, former: string[] | undefined): string[] {
  if (text === '') throw new InvalidArgumentError('It must not be empty.');
  return [...(former ?? []), text];
}

/** A parser for whole numbers within bounds. */
export function wholeNumber(least: number, most: number): (text: string) => number {
  return (text) => {
    const value = /^\d{1,10}$/.test(text) ? Number(text) : Number.NaN;
    if (!(value >= least && value <= most)) {
      throw new InvalidArgumentError(`It must be a whole number from ${least} to ${most}.`);
    }
    return value;
  };
}

/** Parses the seconds of --watch. */
export function watchSeconds(text: string): number {
  const seconds = Number(text);
  if (!(seconds >= 0.2 && seconds <= 3600)) throw new InvalidArgumentError('It must be 0.2 to 3600 seconds.');
  return seconds;
}
