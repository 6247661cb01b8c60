/** Numbers for people. */

const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'] as const;

/** `0 B`, `1.5 GiB`, `90.9 MiB`: three digits at most before the unit, one after the point. */
export function formatBytes(bytes: bigint | number): string {
  let value = Number(bytes);
  let unit = 0;
  // 1023.95 would be shown as "1024.0".
  while (value >= 1023.95 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? value : value.toFixed(1)} ${units[unit]}`;
}

export function formatRate(bytesPerSecond: bigint | number): string {
  return `${formatBytes(bytesPerSecond)}/s`;
}

/** `42 s`, `3 min 20 s`, `1 h 02 min`, `5 d 3 h`. */
export function formatSeconds(seconds: bigint | number): string {
  const whole = Math.max(0, Math.round(Number(seconds)));
  const pad = (value: number) => String(value).padStart(2, '0');
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${pad(whole % 60)} s`;
  if (whole < 86_400) return `${Math.floor(whole / 3600)} h ${pad(Math.floor(whole / 60) % 60)} min`;
  return `${Math.floor(whole / 86_400)} d ${Math.floor(whole / 3600) % 24} h`;
}

/** Part of a whole as 0 to 1; the whole of nothing is complete. */
export function fractionOf(part: bigint, whole: bigint): number {
  if (whole <= 0n) return 1;
  return Math.min(1, Math.max(0, Number((part * 10_000n) / whole) / 10_000));
}

/** ` 42%`; 100% only when all is there. */
export function formatPercent(fraction: number): string {
  return `${String(Math.floor(fraction * 100)).padStart(3)}%`;
}

/** `1 file`, `2 files`. */
export function formatCount(count: bigint | number, noun: string): string {
  return `${count} ${noun}${BigInt(count) === 1n ? '' : 's'}`;
}
