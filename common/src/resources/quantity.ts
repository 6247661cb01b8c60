/** Sizes, shares of a disk and durations in the spelling of custom resources. The schemas allow exactly these. */

/** Suffixes of powers of two, and their values. */
export const binaryUnits: Readonly<Record<string, bigint>> = {
  Ki: 1n << 10n,
  Mi: 1n << 20n,
  Gi: 1n << 30n,
  Ti: 1n << 40n,
  Pi: 1n << 50n,
  Ei: 1n << 60n,
};
const decimal: Record<string, bigint> = {
  '': 1n,
  k: 1000n,
  M: 1000n ** 2n,
  G: 1000n ** 3n,
  T: 1000n ** 4n,
  P: 1000n ** 5n,
  E: 1000n ** 6n,
};

export const sizePattern = '^[0-9]{1,15}(\\.[0-9]{1,9})?([kMGTPE]|[KMGTPE]i)?$';
export const percentPattern = '^[0-9]{1,3}%$';
export const durationPattern = '^[0-9]{1,6}[smh]$';

/** Bytes of `200Gi`, `1.5T` or `4096`, rounded down. Undefined for invalid text. */
export function parseQuantity(text: string): bigint | undefined {
  const match = /^(\d{1,19})(?:\.(\d{1,9}))?([A-Za-z]{0,2})$/.exec(text);
  if (match === null) return undefined;
  const [, whole = '', fraction = '', suffix = ''] = match;
  const unit = binaryUnits[suffix] ?? decimal[suffix];
  if (unit === undefined) return undefined;
  return BigInt(whole) * unit + (BigInt(fraction || '0') * unit) / 10n ** BigInt(fraction.length);
}

/** A budget or floor: whole percents of the file system, or bytes. Undefined for invalid text. */
export function parseShare(text: string): { percent: number } | { bytes: bigint } | undefined {
  if (/^\d{1,3}%$/.test(text)) {
    const percent = Number(text.slice(0, -1));
    return percent <= 100 ? { percent } : undefined;
  }
  const bytes = parseQuantity(text);
  return bytes === undefined ? undefined : { bytes };
}

/** Milliseconds of `30s`, `10m` or `24h`. Undefined for invalid text. */
export function parseDuration(text: string): number | undefined {
  const match = /^(\d{1,6})([smh])$/.exec(text);
  if (match === null) return undefined;
  return Number(match[1]) * { s: 1000, m: 60_000, h: 3_600_000 }[match[2] as 's' | 'm' | 'h'];
}
