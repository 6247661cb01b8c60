const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'] as const;

/**
 * Formats a size for people, with at most four digits before the unit and one after the point: `0 B`, `1.5 GiB`, `90.9
 * MiB`.
 */
export function formatBytes(bytes: bigint | number): string {
  let value = Number(bytes);
  let unit = 0;
  // 1023.95 would round to "1024.0".
  while (value >= 1023.95 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? value : value.toFixed(1)} ${units[unit]}`;
}
