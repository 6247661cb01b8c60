import { epochMs, systemClock } from '../clock.ts';

/**
 * The API server's time of day, known from the Date of its answers (RFC 9110, section 6.6.1: whole seconds, cut off).
 * Timestamps of objects are of that clock, and ours may be minutes off.
 */
export class ServerClock {
  /** Its clock is ahead of ours by at least and at most this, ms. */
  #least = Number.NEGATIVE_INFINITY;
  #most = Number.POSITIVE_INFINITY;

  /** An answer with this Date. `askedAt` and `answeredAt`: by our clock, milliseconds since the epoch. */
  note(date: string | undefined, askedAt: number, answeredAt: number): void {
    const shown = Date.parse(date ?? '');
    const [least, most] = [shown - answeredAt, shown + 1000 - askedAt];
    // Neither holds for a Date that is none; nor for an answer during which our clock was set back.
    if (!(least <= most)) return;
    const agrees = least <= this.#most && most >= this.#least;
    // Else a clock was set, or another server answers: what was known before is worth nothing.
    this.#least = agrees ? Math.max(this.#least, least) : least;
    this.#most = agrees ? Math.min(this.#most, most) : most;
  }

  /** The smallest difference that explains the answers, ms: 0 as long as the clocks may agree. Right within a second. */
  get aheadMs(): number {
    return Math.min(Math.max(0, this.#least), this.#most);
  }

  date(): Date {
    return new Date(epochMs(systemClock) + this.aheadMs);
  }
}
