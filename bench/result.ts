import type { Machine } from './machine.ts';

export interface Sample {
  value: number;
  baseline: number;
}

/** Another program that does what the value does. */
export interface BesideMeasure {
  name: string;
  /** Nothing where it is not installed. */
  measure: ((run: number) => Promise<number>) | undefined;
}

/** Of a row: what another program gave in the same runs. `value` and `ratio`, of ours to its, are medians. */
export interface Beside {
  name: string;
  value: number;
  ratio: number;
  /** Why there are no numbers. */
  missing?: string;
}

export interface Measure {
  id: string;
  what: string;
  unit: string;
  /** More is better, as for GiB/s, or less, as for seconds; a ratio above 1 is always better than the baseline. */
  better: 'more' | 'less';
  /** The least ratio that is good; 0 where none is asked for. */
  target: number;
  /** Measured in the same runs. */
  beside?: BesideMeasure[];
  /** How many times as many runs as were asked for, where single runs differ much and are short; 1 unless given. */
  times?: number;
  /**
   * Measures the value and its baseline once each; which of the two comes first changes from run to run. NaN: there is none
   * on this machine.
   */
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
  beside?: Beside[];
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

const ratioOf = (better: Measure['better'], value: number, other: number): number =>
  better === 'more' ? value / other : other / value;

/** One more run of each program beside ours; one that has failed is not run again. */
async function runBeside(
  about: Measure,
  run: number,
  value: number,
  found: Map<string, number[] | string>,
): Promise<void> {
  for (const { name, measure: once } of about.beside ?? []) {
    const before = found.get(name) ?? (once === undefined ? 'not installed' : []);
    found.set(name, before);
    if (once === undefined || typeof before === 'string') continue;
    try {
      before.push(await once(run), value);
    } catch (error) {
      found.set(name, (error as Error).message.trim().split('\n')[0] ?? 'it failed');
    }
  }
}

const besideOf = (better: Measure['better'], found: Map<string, number[] | string>): Beside[] =>
  [...found].map(([name, numbers]) => {
    if (typeof numbers === 'string') return { name, value: Number.NaN, ratio: Number.NaN, missing: numbers };
    const values = numbers.filter((_, index) => index % 2 === 0);
    const ratios = values.map((value, index) => ratioOf(better, numbers[2 * index + 1] ?? Number.NaN, value));
    return { name, value: median(values), ratio: median(ratios) };
  });

/** Measures one row, value and baseline alternating, so that what disturbs the machine disturbs both. */
export async function measure(about: Measure, runs: number, machine: Machine): Promise<Row> {
  const samples: Row['runs'] = [];
  const found = new Map<string, number[] | string>();
  for (let run = 0; run < runs * (about.times ?? 1); ++run) {
    const sample: Sample = { value: 0, baseline: 0 };
    const order = run % 2 === 0 ? (['baseline', 'value'] as const) : (['value', 'baseline'] as const);
    for (const side of order) sample[side] = await about.sides[side](run);
    if (Number.isNaN(sample.value)) throw new Error(`${about.id} has given no number`);
    samples.push({ ...sample, ratio: ratioOf(about.better, sample.value, sample.baseline) });
    await runBeside(about, run, sample.value, found);
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
    ...(about.beside === undefined ? {} : { beside: besideOf(about.better, found) }),
  };
}

export const number = (value: number): string =>
  Number.isNaN(value) ? '-' : value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);

/** The verdict on a goal, where there is one. */
export const reached = ({ ratio, target }: Pick<Row, 'ratio' | 'target'>): 'yes' | 'NO' | '-' =>
  target === 0 || Number.isNaN(ratio) ? '-' : ratio >= target ? 'yes' : 'NO';

const cells = (row: Row): string[] => [
  row.id,
  number(row.value),
  number(row.baseline),
  row.unit,
  `${number(row.minimum)} / ${number(row.ratio)} / ${number(row.maximum)}`,
  row.target === 0 ? '-' : number(row.target),
  reached(row),
];

/** In the columns of the row that it belongs to; the ratio is of ours to its. */
const besideLine = (row: Row, { name, value, ratio, missing }: Beside): string =>
  line([`  ${name}`, '', number(value), row.unit, missing ?? number(ratio), '', '']);

const head = ['row', 'value', 'baseline', 'unit', 'ratio min / median / max', 'at least', 'reached'];
const widths = [19, 8, 9, 6, 25, 9, 8];

/** Of the table, by its columns. */
export const line = (words: string[]): string =>
  words
    .map((word, column) => (column === 0 ? word.padEnd(widths[0] ?? 0) : word.padStart(widths[column] ?? 0)))
    .join('  ');

export const tableHead = (): string => line(head);
/** A row, and a line for each program beside it. */
export const tableLines = (row: Row): string =>
  [line(cells(row)), ...(row.beside ?? []).map((beside) => besideLine(row, beside))].join('\n');
