import type { ChildProcess } from 'node:child_process';
import { type Outcome, start } from './command.ts';

/** A program that runs until it is asked to end, however long that is. */
export class DaemonProcess {
  readonly child: ChildProcess;
  readonly outcome: Promise<Outcome>;
  #outcome: Outcome | undefined;
  #told = false;

  constructor(program: string, args: string[], environment: Record<string, string> = {}) {
    const started = start(program, args, { timeoutMs: Number.POSITIVE_INFINITY, environment });
    this.child = started.child;
    this.outcome = started.outcome;
    this.outcome.then((outcome) => {
      this.#outcome = outcome;
    });
  }

  /** How it ended, once it has. */
  get ended(): Outcome | undefined {
    return this.#outcome;
  }

  /** How it ended, if it was not asked to. */
  get endedByItself(): Outcome | undefined {
    return this.#told ? undefined : this.#outcome;
  }

  /** It is about to end for another reason than `end`, as another one takes its place. */
  expectEnd(): void {
    if (this.#outcome === undefined) this.#told = true;
  }

  /** Sends the signal and waits; what has not ended after five minutes is killed. */
  async end(signal: NodeJS.Signals): Promise<Outcome> {
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
