import { HearthError, isErrorCode } from '@hearth/common';
import { findProgram, type NativeProgram, runProgram } from '@hearth/node-agent/native-program';
import { Command, Option } from 'commander';
import { printable } from '../format/paint.ts';
import { formatBytes } from '../format/quantity.ts';
import { act, type CommandContext, examples, type Session, wholeNumber } from '../session.ts';
import { benchRdmaCommand } from './bench_rdma.ts';

interface Options {
  device: string;
  path: string;
  lanes?: number;
  sliceKib?: number;
  repeat: number;
  verify?: boolean;
  pageCache?: boolean;
}

/** The JSON report of hearth-load. */
interface Loaded {
  device: string;
  model: string;
  bytes: number;
  seconds: number;
  path: 'direct' | 'bounced' | 'host';
  directBytes: number;
  bouncedBytes: number;
  hostBytes: number;
  whyNotDirect: string;
  verified: boolean;
}

const hearthLoad: NativeProgram = { name: 'hearth-load', room: 'gpu', variable: 'HEARTH_LOAD' };

export function benchCommand(context: CommandContext): Command {
  return new Command('bench')
    .description('Measure this machine.')
    .addCommand(loadCommand(context))
    .addCommand(benchRdmaCommand(context));
}

function loadCommand(context: CommandContext): Command {
  return new Command('load')
    .description(
      'Read whole local files into the memory of a GPU or of the host; report the speed, the path and the reason for ' +
        'not taking a better path. Needs no agent.',
    )
    .argument('<files...>', 'files in a view, in a mount, or anywhere else')
    .option('--device <device>', 'cpu or cuda:N', 'cuda:0')
    .addOption(
      new Option('--path <path>', 'measured takes the faster path; direct fails where there is no direct path')
        .choices(['measured', 'direct', 'bounced'])
        .default('measured'),
    )
    .option('--lanes <count>', 'reading threads (default: one for each processor, at most 16)', wholeNumber(1, 64))
    .option('--slice-kib <kibibytes>', 'size of each read (default: 4096)', wholeNumber(4, 262_144))
    .option('--repeat <count>', 'number of rounds; the fastest counts', wholeNumber(1, 1000), 1)
    .option('--page-cache', 'read through the page cache, as ordinary reads do')
    .option('--verify', 'read the memory back and compare every byte')
    .addHelpText('after', examples(context, 'bench load --device cuda:0 --verify /models/llama/*.safetensors'))
    .action(act(context, runLoad));
}

async function runLoad(session: Session, options: Options, files: string[]): Promise<undefined> {
  const { environment, interrupt, directory } = session.terminal;
  const { path, isThere } = findProgram(hearthLoad, environment);
  if (!isThere) {
    throw new HearthError(
      'NotFound',
      `${path} does not exist; build it with \`make build\`, or name it by HEARTH_LOAD`,
    );
  }
  const outcome = await runProgram(path, { words: wordsOf(options, files), directory, signal: interrupt });
  if (outcome.code !== 0) throw failureOf(outcome.errorOutput, `${path} ${outcome.how}`);
  const loaded = parse(outcome.output);
  if (session.json) session.printJson(loaded);
  else session.print(...linesOf(loaded));
}

function wordsOf(options: Options, files: string[]): string[] {
  const words = ['--json', '--device', options.device, '--path', options.path, '--repeat', String(options.repeat)];
  if (options.lanes !== undefined) words.push('--lanes', String(options.lanes));
  if (options.sliceKib !== undefined) words.push('--slice-kib', String(options.sliceKib));
  if (options.pageCache === true) words.push('--page-cache');
  if (options.verify === true) words.push('--verify');
  // Keeps file names that begin with a dash from being options.
  return [...words, ...files.map((file) => (file.startsWith('-') ? `./${file}` : file))];
}

/** Converts "hearth-load: NotFound: ..." to an error of that code. */
function failureOf(errorOutput: string, how: string): HearthError {
  const [, code, message] = /^hearth-load: (\w+): ([\s\S]*)$/.exec(errorOutput) ?? [];
  if (code !== undefined && message !== undefined && isErrorCode(code)) return new HearthError(code, message);
  return new HearthError('Internal', `${how}: ${errorOutput || 'it said nothing'}`);
}

function parse(output: string): Loaded {
  try {
    return JSON.parse(output) as Loaded;
  } catch {
    throw new HearthError('ProtocolError', 'hearth-load wrote an invalid report; build it again with `make build`');
  }
}

function linesOf(loaded: Loaded): string[] {
  const speed = (loaded.bytes / loaded.seconds / 1e9).toFixed(2);
  const checked = loaded.verified ? ', verified' : '';
  const lines = [
    `${loaded.device} (${printable(loaded.model)}): ${formatBytes(BigInt(loaded.bytes))} in ${loaded.seconds.toFixed(3)} s, ${speed} GB/s${checked}`,
    `path: ${pathsOf(loaded)}`,
  ];
  if (loaded.whyNotDirect !== '') lines.push(`why not direct: ${printable(loaded.whyNotDirect)}`);
  return lines;
}

/** The path, or every path with its bytes when hearth-load used several. */
function pathsOf(loaded: Loaded): string {
  const parts: [string, number][] = [
    ['direct', loaded.directBytes],
    ['bounced', loaded.bouncedBytes],
    ['host', loaded.hostBytes],
  ];
  const used = parts.filter(([, bytes]) => bytes > 0);
  if (used.length < 2) return loaded.path;
  return used.map(([path, bytes]) => `${path} ${formatBytes(BigInt(bytes))}`).join(', ');
}
