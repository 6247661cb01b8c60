/** Loaded before a program (`node --import`): its time of day is off by CLOCK_SKEW_MS. Time that passes is as it was. */
const skewMs = Number(process.env.CLOCK_SKEW_MS);
const TrueDate = Date;

class SkewedDate extends TrueDate {
  constructor(...words: unknown[]) {
    if (words.length === 0) super(TrueDate.now() + skewMs);
    else super(...(words as [number]));
  }

  static override now(): number {
    return TrueDate.now() + skewMs;
  }
}

globalThis.Date = SkewedDate as DateConstructor;
