import { join } from 'node:path';
import { root } from './command.ts';
import { runGroup } from './group_run.ts';
import type { Machine } from './machine.ts';
import { Meeting, type Pair, type Side } from './meeting.ts';
import type { Group, Settings } from './plan.ts';
import { interval, line, type Measure, measure, number, type Row } from './result.ts';

/** A row of one release against another one: `value` is this release's, `baseline` the other's. */
export interface Comparison extends Row {
  /** Between these the median of the ratio lies, with a probability of 90 %. */
  low: number;
  high: number;
}

/** With 25 pairs the interval of equals is a few percent wide. */
const target = 0.95;

/** The values of both, one after the other in turn; what each is compared with otherwise is not measured. */
async function comparePair(pair: Pair, runs: number, machine: Machine): Promise<Comparison> {
  const sides = { value: pair.this.sides.value, baseline: pair.other.sides.value };
  const row = await measure({ ...pair.this, target, sides, beside: [] }, runs, machine);
  const [low, high] = interval(row.runs.map(({ ratio }) => ratio));
  return { ...row, low, high };
}

type RunSide = (side: Side, row: (about: Measure) => Promise<void>) => Promise<void>;

/** Both at once, from row to row. */
async function rowByRow(run: RunSide, compare: (pair: Pair) => Promise<void>): Promise<void> {
  const meeting = new Meeting(compare);
  const one = async (side: Side) => {
    try {
      await run(side, (about) => meeting.row(side, about));
      meeting.fail(new Error(`${side} has no more rows`));
    } catch (error) {
      meeting.fail(error as Error);
      throw error;
    }
  };
  const failed = (await Promise.allSettled([one('this'), one('other')])).find(({ status }) => status === 'rejected');
  if (failed?.status === 'rejected') throw failed.reason;
}

/** One after the other, and what they have measured then. */
async function oneByOne(run: RunSide, compare: (pair: Pair) => Promise<void>): Promise<void> {
  const rows: Record<Side, Measure[]> = { this: [], other: [] };
  for (const side of ['this', 'other'] as const) {
    await run(side, async (about) => {
      rows[side].push(about);
    });
  }
  for (const about of rows.this) {
    const other = rows.other.find(({ id }) => id === about.id);
    if (!other) throw new Error(`the other release has no row ${about.id}`);
    await compare({ this: about, other });
  }
}

/** Measures a group's rows of this release against those of `release`, a built checkout; `done` is given each row. */
export async function compareGroup(
  group: Group,
  settings: Settings,
  place: { directory: string; release: string; machine: Machine },
  row: { wanted: (id: string) => boolean; done: (row: Comparison) => void },
): Promise<void> {
  const run: RunSide = (side, measured) => {
    const release = side === 'this' ? root : place.release;
    const wanted = async (about: Measure) => {
      if (row.wanted(about.id)) await measured(about);
    };
    return runGroup(group, settings, { directory: join(place.directory, side), release }, wanted);
  };
  const compare = async (pair: Pair) => row.done(await comparePair(pair, settings.runs, place.machine));
  await (group.alone ? oneByOne : rowByRow)(run, compare);
}

export const comparisonHead = (): string =>
  line(['row', 'now', 'before', 'unit', 'ratio 90 % / median', 'at least', 'reached']);

/** Reached when the lower end of the interval is. */
export const comparisonLine = (row: Comparison): string =>
  line([
    row.id,
    number(row.value),
    number(row.baseline),
    row.unit,
    `${number(row.low)} / ${number(row.ratio)} / ${number(row.high)}`,
    number(row.target),
    row.low >= row.target ? 'yes' : 'NO',
  ]);
