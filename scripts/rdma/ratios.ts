import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Of the report of hearth-rdma-bench. */
interface Measured {
  rows: { bytes: number; bytesPerSecond: number; medianMicroseconds: number }[];
}

/** perftest's MB. */
const mebibyte = 1 << 20;

/**
 * Hearth's measurements against perftest's of the same round and device, as lines with the median and the spread. Nothing
 * is asserted: an emulated machine beside other work measures them too differently.
 */
export function ratioLines(folder: string): string[] {
  const rounds = globSync('bench.*.json', { cwd: folder })
    .sort()
    .map((name) => roundOf(folder, name.split('.')[1] ?? ''));
  if (rounds.length === 0) return [];
  const line = (text: string, of: (round: Round) => number) => `  ${text}: ${spread(rounds.map(of))}`;
  return [
    line('writes of 1 MiB, against ib_write_bw', ({ write, perftestWrite }) => write / perftestWrite),
    line('the same, polling as perftest does', ({ polledWrite, perftestWrite }) => polledWrite / perftestWrite),
    line(
      'writes of 4 MiB, against ib_write_bw of 1 MiB',
      ({ largeWrite, perftestWrite }) => largeWrite / perftestWrite,
    ),
    line('time to an answer of 4 KiB, against ib_read_lat', ({ answer, perftestRead }) => answer / perftestRead),
    line('the same, polling as perftest does', ({ polledAnswer, perftestRead }) => polledAnswer / perftestRead),
    line('ib_write_bw, MiB/s', ({ perftestWrite }) => perftestWrite / mebibyte),
    line('ib_read_lat, us', ({ perftestRead }) => perftestRead),
  ];
}

interface Round {
  /** Bytes a second. */
  write: number;
  polledWrite: number;
  largeWrite: number;
  perftestWrite: number;
  /** Microseconds. */
  answer: number;
  polledAnswer: number;
  perftestRead: number;
}

function roundOf(folder: string, round: string): Round {
  const text = (name: string) => readFileSync(join(folder, name), 'utf8');
  const row = (report: string, bytes: number) => {
    const { rows } = JSON.parse(text(`${report}.${round}.json`)) as Measured;
    const found = rows.find((each) => each.bytes === bytes);
    if (found === undefined) throw new Error(`hearth-rdma-bench measured no ${bytes} bytes`);
    return found;
  };
  return {
    write: row('bench', 1 << 20).bytesPerSecond,
    polledWrite: row('spin', 1 << 20).bytesPerSecond,
    largeWrite: row('bench', 4 << 20).bytesPerSecond,
    // #bytes, iterations, peak, average.
    perftestWrite: column(text(`ib_write_bw.${round}.log`), 3) * mebibyte,
    answer: row('bench', 4096).medianMicroseconds,
    polledAnswer: row('spin', 4096).medianMicroseconds,
    // #bytes, iterations, least, most, typical.
    perftestRead: column(text(`ib_read_lat.${round}.log`), 4),
  };
}

/** Of the line below perftest's header; NaN where perftest read no rate of the clock and prints "inf". */
function column(log: string, index: number): number {
  const lines = log.split('\n');
  const header = lines.findIndex((line) => line.includes('#bytes'));
  const text = lines[header + 1]?.trim().split(/\s+/)[index];
  if (header >= 0 && text === 'inf') return Number.NaN;
  const value = Number(text);
  if (header < 0 || !(value > 0)) throw new Error(`perftest's output has no result:\n${log}`);
  return value;
}

function spread(values: number[]): string {
  const sorted = values.filter(Number.isFinite).toSorted((a, b) => a - b);
  if (sorted.length === 0) return 'not measured in any round';
  const [least, median, most] = [0, sorted.length >> 1, sorted.length - 1].map((at) => sorted[at]?.toFixed(2));
  return `${median} (${least} to ${most} of ${sorted.length} rounds)`;
}
