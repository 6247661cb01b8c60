import type { ChildProcess } from 'node:child_process';
import { type Outcome, start } from './command.ts';

/** A program that runs until it is told to end. */
export class DaemonProcess {
  readonly child: ChildProcess;
  readonly outcome: Promise<Outcome>;
  #outcome: Outcome | undefined;

  constructor(program: string, args: string[], environment: Record<string, string> = {}) {
    const started = start(program, args, { timeoutMs: 10 * 60_000, environment });
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

  /** Sends the signal and waits; what has not ended after 15 s is killed. */
  async end(signal: NodeJS.Signals): Promise<Outcome> {
    this.child.kill(signal);
    const killer = setTimeout(() => this.child.kill('SIGKILL'), 15_000);
    try {
      return await this.outcome;
    } finally {
      clearTimeout(killer);
    }
  }
}
