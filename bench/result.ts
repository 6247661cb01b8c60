import type { Machine } from './machine.ts';

export interface Sample {
  value: number;
  baseline: number;
}

export interface Measure {
  id: string;
  what: string;
  unit: string;
  /** More is better, as for GiB/s, or less, as for seconds; a ratio above 1 is always better than the baseline. */
  better: 'more' | 'less';
  /** The least ratio that is good. */
  target: number;
  /** How many times as many runs as were asked for, where single runs differ much and are short; 1 unless given. */
  times?: number;
  /** Measures the value and its baseline once each; which of the two comes first changes from run to run. */
  sides: { value: (run: number) => Promise<number>; baseline: (run: number) => Promise<number> };
}

/** One row of bench/results.json. `value`, `baseline` and `ratio` are medians of `runs`. */
export interface Row {
  id: string;
  what: string;
  value: number;
  baseline: number;
  ratio: number;
  minimum: number;
  maximum: number;
  target: number;
  unit: string;
  runs: (Sample & { ratio: number })[];
  machine: Machine;
}

export function median(numbers: number[]): number {
  const sorted = [...numbers].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : (upper + (sorted[middle - 1] ?? Number.NaN)) / 2;
}

/**
 * The median of what the samples come from lies in it with a probability of 90 % at least. By ranks, as each sample is below
 * that median by chance alone (binomial distribution); of fewer than five samples it is the least and the greatest.
 */
export function interval(numbers: number[]): [number, number] {
  const sorted = [...numbers].sort((a, b) => a - b);
  const count = sorted.length;
  let probability = 0.5 ** count; // of exactly `below` samples below the median
  let tail = probability; // of `below` or fewer
  let rank = 0;
  for (let below = 1; 2 * tail + (2 * (probability * (count - below + 1))) / below <= 0.1; ++below) {
    probability *= (count - below + 1) / below;
    tail += probability;
    rank = below;
  }
  return [sorted[rank] ?? Number.NaN, sorted[count - 1 - rank] ?? Number.NaN];
}

/** Measures one row, value and baseline alternating, so that what disturbs the machine disturbs both. */
export async function measure(about: Measure, runs: number, machine: Machine): Promise<Row> {
  const samples: Row['runs'] = [];
  for (let run = 0; run < runs * (about.times ?? 1); ++run) {
    const sample: Sample = { value: 0, baseline: 0 };
    const order = run % 2 === 0 ? (['baseline', 'value'] as const) : (['value', 'baseline'] as const);
    for (const side of order) sample[side] = await about.sides[side](run);
    const ratio = about.better === 'more' ? sample.value / sample.baseline : sample.baseline / sample.value;
    samples.push({ ...sample, ratio });
  }
  const ratios = samples.map((sample) => sample.ratio);
  return {
    id: about.id,
    what: about.what,
    value: median(samples.map((sample) => sample.value)),
    baseline: median(samples.map((sample) => sample.baseline)),
    ratio: median(ratios),
    minimum: Math.min(...ratios),
    maximum: Math.max(...ratios),
    target: about.target,
    unit: about.unit,
    runs: samples,
    machine,
  };
}

export const number = (value: number): string =>
  value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);

const cells = (row: Row): string[] => [
  row.id,
  number(row.value),
  number(row.baseline),
  row.unit,
  `${number(row.minimum)} / ${number(row.ratio)} / ${number(row.maximum)}`,
  number(row.target),
  row.ratio >= row.target ? 'yes' : 'NO',
];

const head = ['row', 'value', 'baseline', 'unit', 'ratio min / median / max', 'at least', 'reached'];
const widths = [19, 8, 9, 6, 25, 9, 8];

/** Of the table, by its columns. */
export const line = (words: string[]): string =>
  words
    .map((word, column) => (column === 0 ? word.padEnd(widths[0] ?? 0) : word.padStart(widths[column] ?? 0)))
    .join('  ');

export const tableHead = (): string => line(head);
export const tableLine = (row: Row): string => line(cells(row));
