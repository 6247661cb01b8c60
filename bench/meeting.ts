import type { Measure } from './result.ts';

export type Side = 'this' | 'other';

/** Results of both: the same row, of one release and of the other. */
export type Pair = Record<Side, Measure>;

interface Arrived {
  side: Side;
  about: Measure;
  resolve: () => void;
  reject: (error: Error) => void;
}

/**
 * Two runs of the same rows, each of one release, wait for one another at each row. So both releases are ready when a row is
 * measured, and neither does anything else meanwhile.
 */
export class Meeting {
  readonly #measure: (pair: Pair) => Promise<void>;
  #arrived: Arrived | undefined;
  #failure: Error | undefined;

  /** `measure` is called once for each row that both have come to. */
  constructor(measure: (pair: Pair) => Promise<void>) {
    this.#measure = measure;
  }

  /** Ends when the row was measured for both; an error when the other side has failed, or comes to another row. */
  async row(side: Side, about: Measure): Promise<void> {
    if (this.#failure) throw this.#failure;
    const first = this.#arrived;
    if (!first) {
      await new Promise<void>((resolve, reject) => {
        this.#arrived = { side, about, resolve, reject };
      });
      return;
    }
    this.#arrived = undefined;
    try {
      if (first.side === side || first.about.id !== about.id) {
        throw new Error(`the releases have other rows: ${first.about.id} of ${first.side}, ${about.id} of ${side}`);
      }
      await this.#measure(
        first.side === 'this' ? { this: first.about, other: about } : { this: about, other: first.about },
      );
      first.resolve();
    } catch (error) {
      first.reject(error as Error);
      throw error;
    }
  }

  /** One side has ended before its last row: the other one waits for it no longer. */
  fail(error: Error): void {
    this.#failure ??= error;
    this.#arrived?.reject(error);
    this.#arrived = undefined;
  }
}
