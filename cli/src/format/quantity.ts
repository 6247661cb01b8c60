/** Numbers for people. */

import { formatBytes } from '@hearth/common';

export { formatBytes };

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

/** A duration: `3.2 s`, and from a minute on like `formatSeconds`. */
export function formatSpan(seconds: number): string {
  return seconds < 59.95 ? `${seconds.toFixed(1)} s` : formatSeconds(seconds);
}

/** Fraction from 0 to 1; a part of nothing is complete. */
export function fractionOf(part: bigint, whole: bigint): number {
  if (whole <= 0n) return 1;
  return Math.min(1, Math.max(0, Number((part * 10_000n) / whole) / 10_000));
}

/** ` 42%`; 100% only when complete. */
export function formatPercent(fraction: number): string {
  return `${String(Math.floor(fraction * 100)).padStart(3)}%`;
}

/** `1 file`, `2 files`. */
export function formatCount(count: bigint | number, noun: string): string {
  return `${count} ${noun}${BigInt(count) === 1n ? '' : 's'}`;
}
