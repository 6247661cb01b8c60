// `make soak`: four agents whose budgets hold a third of the data, readers by read, mmap and at random on each of their
// mounts, and one thing after the other that goes wrong. Ends with 0 when no byte was wrong, no read failed that need not
// have, none took longer than two minutes, no process ended by itself, and memory is where it was: that of the first agent,
// which is never restarted. Ctrl-C gives it up, in order.
// SOAK_SECONDS (3600), SOAK_BYTES (1 GiB), SOAK_SEED (of the time); --json prints the result for programs.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '@hearth/common/testing';
import { type SoakResult, soak } from './run.ts';
import { Stage } from './stage.ts';
import { longestWaitMs } from './watch.ts';

function count(name: string, otherwise: number): number {
  const value = Number(process.env[name] ?? otherwise);
  if (!Number.isSafeInteger(value) || value < 1) throw new Error(`${name} must be a whole number above 0`);
  return value;
}

/** More than this is a leak: between kills, in a cache that is full all the time. */
const growthAllowed = 1.25;
/** In shorter runs caches and buffers are still filling. */
const minSecondsOfMemory = 600;
const growthBytesAllowed = 64 * 2 ** 20;

/** All of the data once in this time, by all readers together, is the least that a run has to read. */
const secondsOfData = 600;

function verdict({
  seconds,
  wrong,
  unexpected,
  failures,
  memory,
  bytesRead,
  longestWaitMs: wait,
}: SoakResult): string[] {
  // The others begin again, so their memory shows nothing.
  const grown = memory.filter(
    ({ agent, before, after }) =>
      agent === agents[0] &&
      seconds >= minSecondsOfMemory &&
      after > growthAllowed * before &&
      after - before > growthBytesAllowed,
  );
  const least = bytes * Math.max(1, seconds / secondsOfData);
  return [
    ...(bytesRead < least ? [`only ${MiB(bytesRead)} of at least ${MiB(least)} MiB were read`] : []),
    ...(wait > longestWaitMs ? [`a reader got nothing for ${Math.round(wait / 1000)} s`] : []),
    ...(wrong.length > 0 ? [`${wrong.length} times bytes were not the origin's`] : []),
    ...(unexpected.length > 0 ? [`${unexpected.length} reads failed that need not have`] : []),
    ...grown.map(({ agent, before, after }) => `agent ${agent} grew from ${MiB(before)} to ${MiB(after)} MiB`),
    ...failures,
  ];
}

const MiB = (bytes: number): number => Math.round(bytes / 2 ** 20);

function print(result: SoakResult, reasons: string[]): void {
  const { seconds, seed, bytesRead, opens, longestWaitMs: wait, faults, memory, wrong, unexpected, expected } = result;
  console.log(
    `\n${seconds} s, seed ${seed}: ${(bytesRead / 2 ** 30).toFixed(1)} GiB read in ${opens} opens. No reader waited longer than ${(wait / 1000).toFixed(1)} s.\n`,
  );
  console.log('WHAT HAPPENED           TIMES');
  for (const [name, times] of Object.entries(faults).sort())
    console.log(`${name.padEnd(23)} ${String(times).padStart(5)}`);
  console.log('\nAGENT  MEMORY BEFORE  AFTER  MOST (MiB)');
  for (const { agent, before, after, most } of memory) {
    const columns = [String(MiB(before)).padStart(13), String(MiB(after)).padStart(6), String(MiB(most)).padStart(5)];
    console.log(`${agent.padEnd(6)} ${columns.join(' ')}`);
  }
  console.log(
    `\nWrong bytes: ${wrong.length}. Failed reads: ${unexpected.length}; of the file that changes: ${expected}, which may.`,
  );
  console.log(reasons.length === 0 ? 'Passed.' : `Failed:\n${reasons.map((reason) => `  ${reason}`).join('\n')}`);
}

if (process.getuid?.() !== 0) {
  console.error('make soak mounts: run it as root');
  process.exit(1);
}
const json = process.argv.includes('--json');
const agents = ['a', 'b', 'c', 'd'];
const bytes = count('SOAK_BYTES', 2 ** 30);
const givenUp = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  // Once: whoever cannot wait says it again.
  process.once(signal, () => {
    console.error('ending; unmounting');
    givenUp.abort(new Error('it was given up'));
  });
}
await using stage = await Stage.start({ agents, bytes, files: 16, signal: givenUp.signal });
const result = await soak(stage, {
  seconds: count('SOAK_SECONDS', 3600),
  seed: count('SOAK_SEED', Math.max(1, Date.now() % 2 ** 31)),
  say: (line) => {
    if (!json) console.log(line);
  },
  signal: givenUp.signal,
});
const reasons = verdict(result);
writeFileSync(join(root, 'build/soak.json'), `${JSON.stringify({ ...result, reasons }, undefined, 2)}\n`);
if (json) console.log(JSON.stringify({ ...result, reasons }));
else print(result, reasons);
process.exitCode = reasons.length === 0 ? 0 : 1;
