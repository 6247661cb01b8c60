import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { readerProgram } from './stage.ts';

export type ReadingMode = 'read' | 'mmap' | 'random';

/** Something that a reader saw that is not as it should be. */
export interface Finding {
  reader: string;
  kind: 'wrong' | 'error';
  file: string;
  /** Of wrong bytes: where; of errors: errno and its name. */
  detail: string;
  at: number;
}

/** One process that reads files of one mount again and again, and compares every byte. */
export class Reader {
  readonly name: string;
  readonly #child: ChildProcess;
  readonly #ended: Promise<void>;
  /** So far, half a second late at most. */
  bytes = 0;
  opens = 0;
  #longestWaitMs = 0;
  /** When it reported progress last, by `performance.now()`. */
  #lastSign = performance.now();
  /** Why it could not do its work. */
  failure: string | undefined;
  ended = false;
  #stopped = false;

  constructor(name: string, mode: ReadingMode, seconds: number, files: string[], found: (finding: Finding) => void) {
    this.name = name;
    this.#child = spawn(readerProgram, [mode, `${seconds}`, ...files], { stdio: ['ignore', 'pipe', 'inherit'] });
    const { stdout } = this.#child;
    if (stdout === null) throw new Error('the reader has no output');
    createInterface({ input: stdout }).on('line', (line) => {
      const [kind = '', file = '', ...rest] = line.split(' ');
      if (kind === 'at' || kind === 'done') {
        this.#noteWait();
        this.#lastSign = performance.now();
        this.bytes = Number(file);
        this.opens = Number(rest[0]);
      } else if (kind === 'wrong' || kind === 'error') {
        found({ reader: name, kind, file, detail: rest.join(' '), at: Date.now() });
      }
    });
    this.#ended = new Promise<void>((resolve) => {
      this.#child.on('error', (error) => {
        this.failure = error.message;
        resolve();
      });
      this.#child.on('close', (code, signal) => {
        if (code !== 0 && !this.#stopped) this.failure ??= `it ended with ${signal ?? code}`;
        resolve();
      });
    }).then(() => {
      this.ended = true;
      this.#noteWait();
      this.#lastSign = Number.POSITIVE_INFINITY;
    });
  }

  /**
   * The longest time, ms, in which no read of it was answered with bytes, that which lasts now included: reads that hang,
   * and reads that fail again and again.
   */
  get longestWaitMs(): number {
    return Math.max(this.#longestWaitMs, performance.now() - this.#lastSign);
  }

  #noteWait(): void {
    this.#longestWaitMs = this.longestWaitMs;
  }

  /** As when something else does: it has failed. */
  kill(): void {
    this.#child.kill('SIGKILL');
  }

  /** Ends it before its time. */
  stop(): void {
    this.#stopped = true;
    this.#child.kill('SIGTERM');
  }

  /** Waits until it has ended; one that hangs longer than `timeoutMs` is killed and has failed. */
  async end(timeoutMs: number): Promise<void> {
    const killer = setTimeout(() => {
      if (!this.#stopped) this.failure = `it did not end within ${timeoutMs / 1000} s of its time`;
      this.#child.kill('SIGKILL');
    }, timeoutMs);
    await Promise.race([this.#ended, new Promise((resolve) => setTimeout(resolve, timeoutMs + 5_000))]);
    clearTimeout(killer);
  }
}
