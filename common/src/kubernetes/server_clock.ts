import { epochMs, systemClock } from '../clock.ts';

/**
 * Wall-clock time of the API server, derived from the Date header of its responses (RFC 9110, section 6.6.1: whole
 * seconds, truncated). Object timestamps are of that clock, which may differ from the local one by minutes.
 */
export class ServerClock {
  /** Bounds on how far the server's clock is ahead of the local one, ms. */
  #least = Number.NEGATIVE_INFINITY;
  #most = Number.POSITIVE_INFINITY;

  /** Records a response with this Date header. `askedAt` and `answeredAt` are local milliseconds since the epoch. */
  note(date: string | undefined, askedAt: number, answeredAt: number): void {
    const shown = Date.parse(date ?? '');
    const [least, most] = [shown - answeredAt, shown + 1000 - askedAt];
    // False for an invalid Date, or when the local clock was set back during the request.
    if (!(least <= most)) return;
    const agrees = least <= this.#most && most >= this.#least;
    // On disagreement a clock was set or another server answers, so earlier bounds are void.
    this.#least = agrees ? Math.max(this.#least, least) : least;
    this.#most = agrees ? Math.min(this.#most, most) : most;
  }

  /** Smallest offset that explains the responses, ms; 0 while the clocks may agree. Accurate to a second. */
  get aheadMs(): number {
    return Math.min(Math.max(0, this.#least), this.#most);
  }

  date(): Date {
    return new Date(epochMs(systemClock) + this.aheadMs);
  }
}
