import { HearthError } from '@hearth/common';
import type { VerifiedFile } from '@hearth/common/generated/hearth/v1/control.ts';
import { Command } from 'commander';
import { paint, printable } from '../format/paint.ts';
import { formatBytes, formatCount } from '../format/quantity.ts';
import { cut } from '../format/table.ts';
import { LiveRegion } from '../live_region.ts';
import { act, type CommandContext, examples, type Session } from '../session.ts';

interface Options {
  origin?: boolean;
  summary?: boolean;
}

interface Totals {
  files: bigint;
  bytes: bigint;
  mismatches: bigint;
  repairedFiles: bigint;
  repairedBlocks: bigint;
  originBytes: bigint;
  peerBytes: bigint;
  localBytes: bigint;
}

export function verifyCommand(context: CommandContext): Command {
  return new Command('verify')
    .description(
      'Read every file of a dataset through this node, compare checksums and repair blocks that have changed on the disk. The exit code is not 0 when a file is not right at the end.',
    )
    .argument('<dataset>', 'name of the dataset')
    .argument('[paths...]', 'globs of files (default: all files)')
    .option('--origin', 'also compare with the origin, which reads all bytes again')
    .option('--summary', 'list only files that do not match or were repaired, and the totals')
    .addHelpText('after', examples(context, 'verify llama', 'verify llama --origin --summary', 'verify llama --json'))
    .action(act(context, run));
}

async function run(session: Session, options: Options, dataset: string, paths: string[]): Promise<undefined> {
  const totals: Totals = {
    files: 0n,
    bytes: 0n,
    mismatches: 0n,
    repairedFiles: 0n,
    repairedBlocks: 0n,
    originBytes: 0n,
    peerBytes: 0n,
    localBytes: 0n,
  };
  const region = new LiveRegion(session.terminal);
  const request = { dataset, paths, mode: options.origin === true ? 'origin' : 'cache' };
  try {
    await session.withAgent(async (agent) => {
      for await (const file of agent.stream('verify', request)) {
        add(totals, file);
        region.clear();
        if (session.json) session.printJson(file);
        else if (!file.ok || file.repairedBlocks > 0n || options.summary !== true)
          session.print(fileLine(session, file));
        if (!session.json) region.draw([cut(`Verified ${totalsText(totals)}`, session.terminal.columns())]);
      }
    });
  } finally {
    region.clear();
  }
  if (totals.files === 0n) {
    throw new HearthError(
      'NotFound',
      `${dataset} has no files${paths.length > 0 ? ' that match; see them by ls' : ''}`,
    );
  }
  if (session.json) session.printJson({ summary: totals });
  else session.print(totalsText(totals));
  if (totals.mismatches > 0n) {
    throw new HearthError(
      'Corrupt',
      `${totals.mismatches} of ${formatCount(totals.files, 'file')} of ${dataset} do not match; check the disks and the origin, and verify again, or add the dataset again if its origin has changed`,
    );
  }
}

function add(totals: Totals, file: VerifiedFile): void {
  totals.files += 1n;
  totals.bytes += file.bytes;
  totals.mismatches += file.ok ? 0n : 1n;
  totals.repairedFiles += file.repairedBlocks > 0n ? 1n : 0n;
  totals.repairedBlocks += file.repairedBlocks;
  totals.originBytes += file.originBytes;
  totals.peerBytes += file.peerBytes;
  totals.localBytes += file.localBytes;
}

/** Sources of the bytes, without sources that supplied none. */
function sourcesText(bytes: Pick<Totals, 'originBytes' | 'peerBytes' | 'localBytes'>): string {
  const parts: [string, bigint][] = [
    ['origin', bytes.originBytes],
    ['peers', bytes.peerBytes],
    ['local', bytes.localBytes],
  ];
  return parts
    .filter(([, count]) => count > 0n)
    .map(([source, count]) => `${source} ${formatBytes(count)}`)
    .join(', ');
}

function totalsText(totals: Totals): string {
  const sources = sourcesText(totals);
  const match = totals.mismatches === 0n ? 'all match' : `${totals.mismatches} do not match`;
  const repaired =
    totals.repairedBlocks === 0n
      ? ''
      : `, ${formatCount(totals.repairedBlocks, 'block')} of ${formatCount(totals.repairedFiles, 'file')} repaired`;
  return `${formatCount(totals.files, 'file')}, ${formatBytes(totals.bytes)}: ${match}${repaired}${sources === '' ? '' : ` (${sources})`}`;
}

/** Fixed column widths, because each line is written as soon as its file is verified. */
function fileLine(session: Session, file: VerifiedFile): string {
  const word = !file.ok ? 'BAD' : file.repairedBlocks > 0n ? 'repaired' : 'ok';
  const state = paint(word.padEnd(8), file.ok ? 'good' : 'bad', session.terminal.colour);
  const words = [
    formatBytes(file.bytes).padStart(10),
    file.sha256.slice(0, 12).padEnd(12),
    file.dataPath.padEnd(11),
    sourcesText(file).padEnd(18),
    printable(file.path),
    printable(file.message),
  ];
  return `${state} ${words.join('  ').trimEnd()}`;
}
