import { setTimeout as sleep } from 'node:timers/promises';
import { faults } from './faults.ts';
import { MemoryWatch } from './memory.ts';
import { type Finding, Reader, type ReadingMode } from './readers.ts';
import type { Stage } from './stage.ts';

export interface SoakOptions {
  seconds: number;
  seed: number;
  /** Lines for people, without a newline. */
  say(line: string): void;
}

export interface SoakResult {
  seconds: number;
  seed: number;
  bytesRead: number;
  opens: number;
  faults: Record<string, number>;
  /** Bytes that were not the origin's: there must be none. */
  wrong: Finding[];
  /** Reads that failed though they need not have: there must be none. */
  unexpected: Finding[];
  /** Reads of a file that had changed at the origin, which may fail. */
  expected: number;
  memory: { agent: string; before: number; after: number; most: number }[];
  /** What could not be done: readers that hang, agents that do not start again. */
  failures: string[];
}

/** Between two faults. */
const leastPauseMs = 2_000;
const mostPauseMs = 8_000;
const memoryEveryMs = 5_000;
/** A reader that is in the middle of a read when its time is over. */
const patienceMs = 60_000;
const modes: readonly ReadingMode[] = ['read', 'mmap', 'random'];

/** Readers on every mount while one thing after the other goes wrong, for as long as asked. */
export async function soak(stage: Stage, options: SoakOptions): Promise<SoakResult> {
  const random = generator(options.seed);
  const found: Finding[] = [];
  const failures: string[] = [];
  const memory = new MemoryWatch();
  const end = Date.now() + options.seconds * 1000;
  const begun = Date.now();
  const readers = stage.agents.flatMap((agent) =>
    modes.map(
      (mode) =>
        new Reader(`${mode} on ${agent}`, mode, options.seconds, stage.filesOf(agent), (one) => {
          found.push(one);
          options.say(`${clock(begun)} ${one.kind} ${one.detail}: ${one.file} (${one.reader})`);
        }),
    ),
  );
  const counts: Record<string, number> = {};
  const watching = new AbortController();
  const watch = watchMemory(stage, memory, watching.signal);
  const changing = readChanging(stage, end, found);
  while (Date.now() < end) {
    await sleep(leastPauseMs + random() * (mostPauseMs - leastPauseMs));
    const fault = faults[Math.floor(random() * faults.length)];
    if (fault === undefined || Date.now() >= end) break;
    const started = Date.now();
    try {
      const what = await fault.happen(stage, random);
      counts[fault.name] = (counts[fault.name] ?? 0) + 1;
      options.say(`${clock(begun)} ${fault.name} ${what} (${((Date.now() - started) / 1000).toFixed(1)} s)`);
    } catch (error) {
      failures.push(`${clock(begun)} ${fault.name}: ${error instanceof Error ? error.message : String(error)}`);
      options.say(failures.at(-1) ?? '');
      break;
    }
  }
  watching.abort();
  await Promise.all([
    watch,
    changing,
    ...readers.map((reader) => reader.end(Math.max(0, end - Date.now()) + patienceMs)),
  ]);
  for (const { name, failure } of readers) if (failure !== undefined) failures.push(`reader ${name}: ${failure}`);
  const errors = found.filter(({ kind }) => kind === 'error');
  const ofChanging = ({ reader }: Finding) => reader === changingReader;
  return {
    seconds: Math.round((Date.now() - begun) / 1000),
    seed: options.seed,
    bytesRead: readers.reduce((sum, { bytes }) => sum + bytes, 0),
    opens: readers.reduce((sum, { opens }) => sum + opens, 0),
    faults: counts,
    wrong: found.filter(({ kind }) => kind === 'wrong'),
    unexpected: errors.filter((one) => !ofChanging(one)),
    expected: errors.filter(ofChanging).length,
    memory: memory.summary(),
    failures,
  };
}

const changingReader = 'read of what changes';

/** Its reads may fail when the file has changed; what they give is of one state all the same. */
async function readChanging(stage: Stage, end: number, found: Finding[]): Promise<void> {
  let mounted: number | undefined;
  while (Date.now() < end) {
    // Some time after the change, so that the mount of the state before is read, too; between two readers.
    const { seed } = stage.changing;
    if (mounted !== seed && (await stage.mountChanging())) mounted = seed;
    const reader = new Reader(changingReader, 'read', 2, [stage.changingFile()], (one) => found.push(one));
    await reader.end(patienceMs);
    await sleep(200);
  }
}

async function watchMemory(stage: Stage, memory: MemoryWatch, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    for (const name of stage.agents) {
      try {
        memory.note(name, stage.cluster.agent(name).residentMemory());
      } catch {
        // It is dead at the moment.
      }
    }
    await sleep(memoryEveryMs, undefined, { signal }).catch(() => undefined);
  }
}

const clock = (begun: number): string => {
  const seconds = Math.round((Date.now() - begun) / 1000);
  return `${String(Math.floor(seconds / 60)).padStart(2, '0')}:${String(seconds % 60).padStart(2, '0')}`;
};

/** mulberry32 (Tommy Ettinger, public domain): the same faults for the same seed. */
function generator(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
