/** Sizes, shares of a disk and durations as people write them. */

const sizeUnits: Record<string, bigint> = {
  '': 1n,
  B: 1n,
  K: 1000n,
  KB: 1000n,
  KI: 1n << 10n,
  KIB: 1n << 10n,
  M: 1000n ** 2n,
  MB: 1000n ** 2n,
  MI: 1n << 20n,
  MIB: 1n << 20n,
  G: 1000n ** 3n,
  GB: 1000n ** 3n,
  GI: 1n << 30n,
  GIB: 1n << 30n,
  T: 1000n ** 4n,
  TB: 1000n ** 4n,
  TI: 1n << 40n,
  TIB: 1n << 40n,
  P: 1000n ** 5n,
  PB: 1000n ** 5n,
  PI: 1n << 50n,
  PIB: 1n << 50n,
};

const largestSize = (1n << 63n) - 1n;

/** Bytes of `200GiB`, `1.5 TB` or `4096`. Undefined unless a size between 0 and 8 EiB. */
export function parseSize(value: unknown): bigint | undefined {
  if (typeof value === 'bigint') return value >= 0n && value <= largestSize ? value : undefined;
  if (typeof value === 'number') return Number.isSafeInteger(value) && value >= 0 ? BigInt(value) : undefined;
  if (typeof value !== 'string') return undefined;
  const match = /^(\d{1,19})(?:\.(\d{1,9}))?\s*([A-Za-z]*)$/.exec(value.trim());
  if (match === null) return undefined;
  const [, whole = '', fraction = '', unitName = ''] = match;
  const unit = sizeUnits[unitName.toUpperCase()];
  if (unit === undefined) return undefined;
  const bytes = BigInt(whole) * unit + (BigInt(fraction || '0') * unit) / 10n ** BigInt(fraction.length);
  return bytes <= largestSize ? bytes : undefined;
}

/** A number of bytes, or a share of a file system in hundredths of a percent. */
export type Amount = { bytes: bigint } | { basisPoints: number };

/** `200GiB` or `80%` (at most two decimals). Undefined for other text. */
export function parseAmount(value: unknown): Amount | undefined {
  const percent = typeof value === 'string' ? /^(\d{1,3}(?:\.\d{1,2})?)\s*%$/.exec(value.trim()) : null;
  if (percent?.[1] !== undefined) {
    const basisPoints = Math.round(Number(percent[1]) * 100);
    return basisPoints <= 10_000 ? { basisPoints } : undefined;
  }
  const bytes = parseSize(value);
  return bytes === undefined ? undefined : { bytes };
}

/** Bytes of an amount on a file system of this size. */
export function resolveAmount(amount: Amount, fileSystemBytes: bigint): bigint {
  return 'bytes' in amount ? amount.bytes : (fileSystemBytes * BigInt(amount.basisPoints)) / 10_000n;
}

/** The shortest exact spelling in binary units: `200GiB`, `1536MiB`, `4097B`. */
export function formatSize(bytes: bigint): string {
  for (const [unit, size] of [
    ['PiB', 1n << 50n],
    ['TiB', 1n << 40n],
    ['GiB', 1n << 30n],
    ['MiB', 1n << 20n],
    ['KiB', 1n << 10n],
  ] as const) {
    if (bytes >= size && bytes % size === 0n) return `${bytes / size}${unit}`;
  }
  return `${bytes}B`;
}

export function formatAmount(amount: Amount): string {
  return 'bytes' in amount ? formatSize(amount.bytes) : `${amount.basisPoints / 100}%`;
}

const durationUnits: Record<string, number> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** Milliseconds of `500ms`, `10s`, `15m` or `24h`. Refuses a bare number, whose unit would be a guess. */
export function parseDuration(value: unknown): number | undefined {
  const match = typeof value === 'string' ? /^(\d{1,9}(?:\.\d{1,3})?)\s*(ms|s|m|h|d)$/.exec(value.trim()) : null;
  const unit = durationUnits[match?.[2] ?? ''];
  return match?.[1] === undefined || unit === undefined ? undefined : Math.round(Number(match[1]) * unit);
}

export function formatDuration(milliseconds: number): string {
  for (const unit of ['d', 'h', 'm', 's']) {
    const size = durationUnits[unit] ?? 1;
    if (milliseconds >= size && milliseconds % size === 0) return `${milliseconds / size}${unit}`;
  }
  return `${milliseconds}ms`;
}
