const windowMs = 5_000;

/** Bytes a second over the last five seconds, from a count that grows. */
export class SpeedMeter {
  readonly #samples: { at: number; bytes: bigint }[] = [];

  /** Notes the count at a time in milliseconds of a clock that never goes back; the speed until then. */
  note(bytes: bigint, at: number): bigint {
    this.#samples.push({ at, bytes });
    // One sample older than the window is kept: the speed is measured over the whole of it.
    while (this.#samples.length > 2 && (this.#samples[1]?.at ?? at) <= at - windowMs) this.#samples.shift();
    const first = this.#samples[0];
    if (first === undefined || first.at >= at || first.bytes >= bytes) return 0n;
    return ((bytes - first.bytes) * 1000n) / BigInt(Math.max(1, Math.round(at - first.at)));
  }
}
