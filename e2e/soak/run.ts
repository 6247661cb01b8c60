import { setTimeout as sleep } from 'node:timers/promises';
import { faults } from './faults.ts';
import { MemoryWatch } from './memory.ts';
import { type Finding, Reader, type ReadingMode } from './readers.ts';
import type { Stage } from './stage.ts';
import { watchProcesses } from './watch.ts';

export interface SoakOptions {
  seconds: number;
  seed: number;
  /** Lines for people, without a newline. */
  say(line: string): void;
  /** Gives the run up. */
  signal: AbortSignal;
}

export interface SoakResult {
  seconds: number;
  seed: number;
  bytesRead: number;
  opens: number;
  /** In which a reader got no bytes. */
  longestWaitMs: number;
  faults: Record<string, number>;
  /** Bytes that were not the origin's: there must be none. */
  wrong: Finding[];
  /** Reads that failed though they need not have: there must be none. */
  unexpected: Finding[];
  /** Reads of a file that had changed at the origin, which may fail. */
  expected: number;
  memory: { agent: string; before: number; after: number; most: number }[];
  /** Sentences about readers that hang and agents that do not start again. */
  failures: string[];
}

/** Between two faults. */
const minPauseMs = 2_000;
const maxPauseMs = 8_000;
const memoryEveryMs = 5_000;
/** A reader that is in the middle of a read when its time is over. */
const timeoutMs = 60_000;
const stoppedTimeoutMs = 5_000;
const modes: readonly ReadingMode[] = ['read', 'mmap', 'random'];

/** Readers on every mount while one thing after the other goes wrong, for as long as asked, or until the signal. */
export async function soak(stage: Stage, options: SoakOptions): Promise<SoakResult> {
  const found: Finding[] = [];
  const memory = new MemoryWatch();
  const begun = Date.now();
  const end = begun + options.seconds * 1000;
  const say = (line: string) => options.say(`${clock(begun)} ${line}`);
  const readers = stage.agents.flatMap((agent) =>
    modes.map(
      (mode) =>
        new Reader(`${mode} on ${agent}`, mode, options.seconds, stage.filesOf(agent), (one) => {
          found.push(one);
          say(`${one.kind} ${one.detail}: ${one.file} (${one.reader})`);
        }),
    ),
  );
  const over = new AbortController();
  const signal = AbortSignal.any([over.signal, options.signal]);
  const failures: string[] = [];
  const fails = (reasons: string[]) => {
    failures.push(...reasons);
    for (const reason of reasons) say(reason);
    if (reasons.length > 0) over.abort();
  };
  const beside = [
    watchMemory(stage, memory, signal),
    readChanging(stage, end, found, signal),
    watchProcesses(stage, readers, signal).then(fails),
  ];
  const counts = await goWrong({ ...options, stage, say, end, signal }).catch((error: Error) => {
    fails([error.message]);
    return {};
  });
  // Readers end by themselves at this time, unless the run has failed or was given up.
  const early = signal.aborted;
  over.abort();
  if (early) for (const reader of readers) reader.stop();
  // A stopped reader may wait for ever: its mount is unmounted after this.
  const timeout = early ? stoppedTimeoutMs : Math.max(0, end - Date.now()) + timeoutMs;
  await Promise.all([...beside, ...readers.map((reader) => reader.end(timeout))]);
  for (const { name, failure } of readers) if (failure !== undefined) failures.push(`reader ${name}: ${failure}`);
  failures.push(...stage.endedByThemselves());
  if (options.signal.aborted) failures.push('it was given up');
  return {
    ...resultOf(readers, found),
    seconds: Math.round((Date.now() - begun) / 1000),
    seed: options.seed,
    faults: counts,
    memory: memory.summary(),
    failures: [...new Set(failures)],
  };
}

interface Course extends SoakOptions {
  stage: Stage;
  end: number;
}

/** One fault after the other; how often each happened. */
async function goWrong({ stage, seed, end, say, signal }: Course): Promise<Record<string, number>> {
  const random = generator(seed);
  const counts: Record<string, number> = {};
  for (;;) {
    const pause = minPauseMs + random() * (maxPauseMs - minPauseMs);
    await sleep(Math.min(pause, Math.max(0, end - Date.now())), undefined, { signal }).catch(() => undefined);
    const fault = faults[Math.floor(random() * faults.length)];
    if (fault === undefined || signal.aborted || Date.now() >= end) return counts;
    const started = Date.now();
    const what = await fault.happen(stage, random).catch((error: Error) => {
      throw new Error(`${fault.name}: ${error.message}`);
    });
    counts[fault.name] = (counts[fault.name] ?? 0) + 1;
    say(`${fault.name} ${what} (${((Date.now() - started) / 1000).toFixed(1)} s)`);
  }
}

function resultOf(readers: readonly Reader[], found: readonly Finding[]) {
  const errors = found.filter(({ kind }) => kind === 'error');
  const ofChanging = ({ reader }: Finding) => reader === changingReader;
  return {
    bytesRead: readers.reduce((sum, { bytes }) => sum + bytes, 0),
    opens: readers.reduce((sum, { opens }) => sum + opens, 0),
    longestWaitMs: Math.round(Math.max(...readers.map((reader) => reader.longestWaitMs))),
    wrong: found.filter(({ kind }) => kind === 'wrong'),
    unexpected: errors.filter((one) => !ofChanging(one)),
    expected: errors.filter(ofChanging).length,
  };
}

const changingReader = 'read of what changes';

/** Its reads may fail when the file has changed; what they give is of one state all the same. */
async function readChanging(stage: Stage, end: number, found: Finding[], signal: AbortSignal): Promise<void> {
  let mounted: number | undefined;
  while (Date.now() < end && !signal.aborted) {
    // Some time after the change, so that the mount of the state before is read, too; between two readers.
    const { seed } = stage.changing;
    if (mounted !== seed && (await stage.mountChanging())) mounted = seed;
    const reader = new Reader(changingReader, 'read', 2, [stage.changingFile()], (one) => found.push(one));
    await reader.end(timeoutMs);
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
