import { displayWidth } from './format/table.ts';
import type { Terminal } from './terminal.ts';

const minMillisecondsBetweenFrames = 50;

/**
 * The last lines of a terminal, redrawn in place. On other outputs nothing is drawn: callers write lines
 * there instead. `end` leaves the last frame standing.
 */
export class LiveRegion {
  readonly #terminal: Terminal;
  #drawn = 0;
  #drawnAt = Number.NEGATIVE_INFINITY;
  #pending: string[] | undefined;

  constructor(terminal: Terminal) {
    this.#terminal = terminal;
  }

  /** Lines without line ends, not wider than the terminal. Frames that follow too fast are left out. */
  draw(lines: string[]): void {
    if (!this.#terminal.interactive) return;
    this.#pending = lines;
    if (this.#terminal.clock.now() - this.#drawnAt >= minMillisecondsBetweenFrames) this.#flush();
  }

  end(): void {
    this.#flush();
    this.#drawn = 0;
  }

  /** Removes what was drawn. */
  clear(): void {
    this.#pending = [];
    this.end();
  }

  #flush(): void {
    if (this.#pending === undefined) return;
    const up = this.#drawn > 0 ? `\x1b[${this.#drawn}A\r\x1b[J` : '';
    this.#terminal.stdout.write(up + this.#pending.map((line) => `${line}\n`).join(''));
    // A line that wrapped takes more than one row of the screen.
    const columns = this.#terminal.columns();
    // biome-ignore lint/suspicious/noControlCharactersInRegex: colour sequences have no width
    const plain = (line: string) => line.replace(/\x1b\[[0-9;]*m/g, '');
    this.#drawn = this.#pending.reduce(
      (sum, line) => sum + Math.max(1, Math.ceil(displayWidth(plain(line)) / columns)),
      0,
    );
    this.#drawnAt = this.#terminal.clock.now();
    this.#pending = undefined;
  }
}
