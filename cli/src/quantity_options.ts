import { parseDuration, parseSize } from '@hearth/node-agent/quantity';
import { InvalidArgumentError } from 'commander';

/** `500MiB`, `1GB`, `4096`: bytes. */
export function parseSizeOption(text: string): bigint {
  const bytes = parseSize(text);
  if (bytes === undefined) throw new InvalidArgumentError('It must be a size such as 4096, 64KiB or 1.5GiB.');
  return bytes;
}

/** `500MiB` or `500MiB/s`: bytes a second, at least one. */
export function parseRateOption(text: string): bigint {
  const bytes = parseSize(text.replace(/\/s$/, ''));
  if (bytes === undefined || bytes === 0n) {
    throw new InvalidArgumentError('It must be bytes a second, such as 500MiB or 1GB.');
  }
  return bytes;
}

/** `90s`, `15m`, `1h`: whole seconds, at least one. */
export function parseSecondsOption(text: string): bigint {
  const milliseconds = parseDuration(text);
  if (milliseconds === undefined || milliseconds < 1000) {
    throw new InvalidArgumentError('It must be a time of at least one second, such as 90s, 15m or 1h.');
  }
  return BigInt(Math.ceil(milliseconds / 1000));
}

/** A whole number, at least one. */
export function parseCountOption(text: string): bigint {
  if (!/^[1-9]\d{0,17}$/.test(text)) throw new InvalidArgumentError('It must be a whole number of at least 1.');
  return BigInt(text);
}
