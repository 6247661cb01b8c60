import type { ChildProcess } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { type CommandOptions, type Outcome, start } from './command.ts';
import { type Condition, until } from './until.ts';

/**
 * A program that runs until it is ended. However this process ends, the kernel ends the program too, unless the program
 * has its own session.
 */
export class DaemonProcess {
  readonly child: ChildProcess;
  readonly outcome: Promise<Outcome>;
  readonly #name: string;
  readonly #log: string | undefined;
  readonly #said: { stdout: string; stderr: string };
  #outcome: Outcome | undefined;
  #expected = false;

  constructor(program: string, args: readonly string[], options: Omit<CommandOptions, 'timeoutMs' | 'input'> = {}) {
    const words = options.detached === true ? [program, ...args] : ['setpriv', '--pdeathsig', 'KILL', program, ...args];
    const [first = '', ...rest] = words;
    const started = start(first, rest, { ...options, timeoutMs: Number.POSITIVE_INFINITY });
    this.#name = program.split('/').at(-1) ?? program;
    this.#log = options.log;
    this.child = started.child;
    this.#said = started.said;
    this.outcome = started.outcome;
    this.outcome.then((outcome) => {
      this.#outcome = outcome;
    });
  }

  get pid(): number {
    if (this.child.pid === undefined || this.ended !== undefined) throw new Error(`${this.#name} does not run`);
    return this.child.pid;
  }

  /** Outcome, once ended. */
  get ended(): Outcome | undefined {
    return this.#outcome;
  }

  /** Outcome, if the program ended without `end` or `expectEnd`. */
  get endedByItself(): Outcome | undefined {
    return this.#expected ? undefined : this.#outcome;
  }

  /** The output so far; empty when the output goes to a log. */
  get said(): Readonly<{ stdout: string; stderr: string }> {
    return this.#said;
  }

  /** The end of the standard error, or of the log. */
  get lastWords(): string {
    const words =
      this.#log === undefined ? this.#said.stderr : existsSync(this.#log) ? readFileSync(this.#log, 'utf8') : '';
    return words.slice(-3000);
  }

  /** Marks the coming end as expected, for example when another process takes over. */
  expectEnd(): void {
    if (this.#outcome === undefined) this.#expected = true;
  }

  /**
   * Like the function `until`; fails with the program's last output when the program ends before the condition holds,
   * or hangs.
   */
  async until(what: string, condition: Condition<unknown>): Promise<void> {
    const holds = async () => {
      if (await condition()) return true;
      if (this.ended === undefined) return false;
      throw new Error(`${this.#name} ended with exit code ${this.ended.code}`);
    };
    await until(what, holds).catch((error: Error) => {
      throw new Error(`${error.message}; the last words of ${this.#name}:\n${this.lastWords}`);
    });
  }

  /** Sends the signal and waits; kills the program after five minutes. */
  async end(signal: NodeJS.Signals = 'SIGKILL'): Promise<Outcome> {
    this.expectEnd();
    this.child.kill(signal);
    const killer = setTimeout(() => this.child.kill('SIGKILL'), 300_000);
    try {
      return await this.outcome;
    } finally {
      clearTimeout(killer);
    }
  }
}
