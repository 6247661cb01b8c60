import { formatSize } from '../config/index.ts';

/** A size for people: at most one digit after the point. */
export function sizeText(bytes: bigint): string {
  for (const [unit, shift] of [
    ['TiB', 40n],
    ['GiB', 30n],
    ['MiB', 20n],
  ] as const) {
    if (bytes >= 1n << shift) return `${Number((bytes * 10n) >> shift) / 10} ${unit}`;
  }
  return formatSize(bytes);
}
