import { displayWidth } from './format/table.ts';
import type { Terminal } from './terminal.ts';

const minMillisecondsBetweenFrames = 50;

/**
 * The last lines of a terminal, redrawn in place. Draws nothing on other outputs, where callers write lines instead.
 * `end` keeps the last frame.
 */
export class LiveRegion {
  readonly #terminal: Terminal;
  #drawn = 0;
  #drawnAt = Number.NEGATIVE_INFINITY;
  #pending: string[] | undefined;

  constructor(terminal: Terminal) {
    this.#terminal = terminal;
  }

  /** Lines without line ends, at most as wide as the terminal. Frames in quick succession are skipped. */
  draw(lines: string[]): void {
    if (!this.#terminal.interactive) return;
    this.#pending = lines;
    if (this.#terminal.clock.now() - this.#drawnAt >= minMillisecondsBetweenFrames) this.#flush();
  }

  end(): void {
    this.#flush();
    this.#drawn = 0;
  }

  /** Removes the current frame. */
  clear(): void {
    this.#pending = [];
    this.end();
  }

  #flush(): void {
    if (this.#pending === undefined) return;
    const up = this.#drawn > 0 ? `\x1b[${this.#drawn}A\r\x1b[J` : '';
    this.#terminal.stdout.write(up + this.#pending.map((line) => `${line}\n`).join(''));
    // A wrapped line takes several rows of the screen.
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
