import { type Clock, epochMs } from '@hearth/common';
import type { HttpClient } from './http_client.ts';

/** Signatures are refused from 15 minutes on; the SDK corrects the time of its own requests from 5 minutes on. */
export const toleratedSkewMs = 5 * 60_000;
const measuredForMs = 10 * 60_000;
const askMs = 2_000;

/**
 * The difference between a server's clock and this machine's. Signatures must have the server's time, and the clock of
 * a node may be wrong.
 */
export class ServerClock {
  readonly #client: HttpClient;
  readonly #url: URL;
  #measured: { at: number; offset: Promise<number> } | undefined;

  /** `url`: the bucket's. */
  constructor(client: HttpClient, url: URL) {
    this.#client = client;
    this.#url = url;
  }

  /**
   * Milliseconds by which the server's clock is ahead; 0 for a tolerated difference, and when the server does not
   * answer at once. `known`: what the SDK has measured, or 0.
   */
  async offsetMs(known: number): Promise<number> {
    if (Math.abs(known) >= toleratedSkewMs) return known;
    const now = this.#clock.now();
    if (this.#measured === undefined || now - this.#measured.at >= measuredForMs) {
      this.#measured = { at: now, offset: this.#measure().catch(() => 0) };
    }
    return await this.#measured.offset;
  }

  get #clock(): Clock {
    return this.#client.clock;
  }

  /** Any answer has the server's time. */
  async #measure(): Promise<number> {
    const { headers } = await this.#client.request({
      method: 'HEAD',
      url: this.#url,
      redirects: 'none',
      bodyLimit: 0,
      attempts: 1,
      signal: this.#clock.timeout(askMs),
    });
    const offset = Date.parse(headers.date ?? '') - epochMs(this.#clock);
    return Math.abs(offset) >= toleratedSkewMs ? offset : 0;
  }
}
