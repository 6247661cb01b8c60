// `make soak`: four agents whose budgets hold a third of the data, readers by read, mmap and at random on each of their
// mounts, and one thing after the other that goes wrong. Ends with 0 when no byte was wrong, no read failed that need not
// have, nothing hung, and memory is where it was.
// SOAK_SECONDS (3600), SOAK_BYTES (1 GiB), SOAK_SEED (of the time); --json prints the result for programs.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '../src/command.ts';
import { type SoakResult, soak } from './run.ts';
import { Stage } from './stage.ts';

function count(name: string, otherwise: number): number {
  const value = Number(process.env[name] ?? otherwise);
  if (!Number.isSafeInteger(value) || value < 1) throw new Error(`${name} must be a whole number above 0`);
  return value;
}

/** More than this is a leak: between kills, in a cache that is full all the time. */
const growthAllowed = 1.25;
/** In shorter runs caches and buffers are still filling. */
const leastSecondsOfMemory = 600;
const growthBytesAllowed = 64 * 2 ** 20;

function verdict({ seconds, wrong, unexpected, failures, memory, bytesRead }: SoakResult): string[] {
  const grown = memory.filter(
    ({ before, after }) =>
      seconds >= leastSecondsOfMemory && after > growthAllowed * before && after - before > growthBytesAllowed,
  );
  return [
    ...(bytesRead === 0 ? ['nothing was read'] : []),
    ...(wrong.length > 0 ? [`${wrong.length} times bytes were not the origin's`] : []),
    ...(unexpected.length > 0 ? [`${unexpected.length} reads failed that need not have`] : []),
    ...grown.map(({ agent, before, after }) => `agent ${agent} grew from ${MiB(before)} to ${MiB(after)} MiB`),
    ...failures,
  ];
}

const MiB = (bytes: number): number => Math.round(bytes / 2 ** 20);

function print(result: SoakResult, reasons: string[]): void {
  const { seconds, seed, bytesRead, opens, faults, memory, wrong, unexpected, expected } = result;
  console.log(`\n${seconds} s, seed ${seed}: ${(bytesRead / 2 ** 30).toFixed(1)} GiB read in ${opens} opens.\n`);
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
await using stage = await Stage.start({ agents: ['a', 'b', 'c', 'd'], bytes: count('SOAK_BYTES', 2 ** 30), files: 16 });
const result = await soak(stage, {
  seconds: count('SOAK_SECONDS', 3600),
  seed: count('SOAK_SEED', Math.max(1, Date.now() % 2 ** 31)),
  say: (line) => {
    if (!json) console.log(line);
  },
});
const reasons = verdict(result);
writeFileSync(join(root, 'build/soak.json'), `${JSON.stringify({ ...result, reasons }, undefined, 2)}\n`);
if (json) console.log(JSON.stringify({ ...result, reasons }));
else print(result, reasons);
process.exitCode = reasons.length === 0 ? 0 : 1;
