import { DaemonProcess } from '@hearth/common/testing';
import { run } from './command.ts';
import { isInstalled } from './peers.ts';
import type { BesideMeasure } from './result.ts';

/** As Mooncake's transfer engine installs it. */
const program = 'transfer_engine_bench';
const mib = 2 ** 20;
const seconds = 2;

/** Reads under way at once: by so many threads, each with so many of this size. */
interface Load {
  threads: number;
  batch: number;
  blockBytes: number;
}

/** From few large ones to many small ones; at its best it is as fast as the fastest of them. */
const loads: readonly Load[] = [
  { threads: 1, batch: 4, blockBytes: 64 * mib },
  { threads: 2, batch: 16, blockBytes: 4 * mib },
  { threads: 4, batch: 64, blockBytes: mib },
];

/** Where its other end is found, by what it says when it starts; nothing until then. */
export const segmentIn = (said: string): string | undefined => /listening on (\S+:\d+)/.exec(said)?.[1];

/** GiB/s, by what it says at the end. */
export function rateIn(said: string): number {
  const rate = /throughput ([\d.]+) GiB\/s/.exec(said)?.[1];
  if (rate === undefined) throw new Error(`${program} gave no throughput`);
  return Number(rate);
}

/** Without a server for what each end knows of the other. */
const words = (mode: 'target' | 'initiator', bufferBytes: number): string[] => [
  ...[`--mode=${mode}`, '--protocol=tcp', '--metadata_server=P2PHANDSHAKE', '--local_server_name=127.0.0.1:0'],
  `--buffer_size=${bufferBytes}`,
];

/** GiB/s of each load, one after the other, from the memory of one process into that of another one, on loopback. */
async function rates(tried: readonly Load[]): Promise<number[]> {
  const bytes = Math.max(...tried.map(({ threads, batch, blockBytes }) => threads * batch * blockBytes));
  // It may be a script that starts the program: with its namespace all of them end.
  const target = new DaemonProcess('unshare', ['--pid', '--fork', '--kill-child', program, ...words('target', bytes)]);
  try {
    let segment: string | undefined;
    await target.until(`${program} listens`, () => {
      segment = segmentIn(target.said.stderr);
      return segment !== undefined;
    });
    const measured: number[] = [];
    for (const { threads, batch, blockBytes } of tried) {
      const load = [`--threads=${threads}`, `--batch_size=${batch}`, `--block_size=${blockBytes}`];
      const report = [`--duration=${seconds}`, '--report_unit=GiB', '--report_precision=3'];
      const reading = [`--segment_id=${segment}`, '--operation=read', ...load, ...report];
      // All that it says is on its standard error.
      const all = [program, ...words('initiator', bytes), ...reading].map((word) => `'${word}'`).join(' ');
      measured.push(rateIn(await run('sh', ['-c', `${all} 2>&1`])));
    }
    return measured;
  } finally {
    await target.end();
  }
}

/**
 * Mooncake's transfer engine over TCP beside a read of so many bytes, where it is in PATH: one such read at a time, and at its
 * best. It compares no checksums, and what it reads was never written, so that no memory has to be read at the other end.
 */
export function mooncakeBeside(bytes: number): BesideMeasure[] {
  const measured = (tried: readonly Load[]): BesideMeasure['measure'] =>
    isInstalled(program) ? async () => Math.max(...(await rates(tried))) : undefined;
  return [
    { name: 'mooncake, one', measure: measured([{ threads: 1, batch: 1, blockBytes: bytes }]) },
    { name: 'mooncake, best', measure: measured(loads) },
  ];
}
