const windowMs = 5_000;

/** Bytes a second over the last five seconds, from a growing counter. */
export class SpeedMeter {
  readonly #samples: { at: number; bytes: bigint }[] = [];

  /** Records the counter at a time of a monotonic clock, ms. Returns the current speed. */
  note(bytes: bigint, at: number): bigint {
    this.#samples.push({ at, bytes });
    // Keeps one sample older than the window, so that the speed covers the whole window.
    while (this.#samples.length > 2 && (this.#samples[1]?.at ?? at) <= at - windowMs) this.#samples.shift();
    const first = this.#samples[0];
    if (first === undefined || first.at >= at || first.bytes >= bytes) return 0n;
    return ((bytes - first.bytes) * 1000n) / BigInt(Math.max(1, Math.round(at - first.at)));
  }
}
