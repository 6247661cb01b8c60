import { HearthError, isErrorCode } from '@hearth/common';
import { findProgram, type NativeProgram, runProgram } from '@hearth/node-agent/native-program';
import { Command, Option } from 'commander';
import { printable } from '../format/paint.ts';
import { formatBytes } from '../format/quantity.ts';
import type { Column } from '../format/table.ts';
import { act, type CommandContext, collectWhole, examples, type Session, wholeNumber } from '../session.ts';
import { benchAgents } from './bench_rdma_agents.ts';

interface Options {
  listen?: string;
  device?: string;
  gidIndex?: number;
  sizes: string;
  depth: number;
  milliseconds: number;
  spin?: boolean;
  once?: boolean;
  dataset?: string;
  path?: string[];
}

interface Port {
  device: string;
  gid: string;
  gidIndex: number;
  gidType: string;
  pci: string;
  numaNode: number;
  mtuBytes: number;
  bitsPerSecond: number;
}

interface Row {
  bytes: number;
  bytesPerSecond: number;
  serverSecondsPerGigabyte: number;
  clientSecondsPerGigabyte: number;
  answers: number;
  medianMicroseconds: number;
  p99Microseconds: number;
}

/** The JSON report of hearth-rdma-bench. */
interface Measured {
  here: Port;
  there: Port;
  mtuBytes: number;
  rows: Row[];
}

const program: NativeProgram = { name: 'hearth-rdma-bench', room: 'rdma_bench', variable: 'HEARTH_RDMA_BENCH' };

/**
 * `hearth bench rdma`: measures between two processes, a server and a client on one or two machines, or between agents.
 */
export function benchRdmaCommand(context: CommandContext): Command {
  return new Command('rdma')
    .description(
      'Measure RDMA between two processes on one or two machines: start a server with --listen, and a client with the ' +
        'address of the server. Needs neither an agent nor a cluster. The server authenticates nobody, so stop it after ' +
        'the measurement.\n\n' +
        "With --dataset, measure agents: this node's agent drops the files and reads them again from other agents.",
    )
    .argument('[address]', 'HOST:PORT of the server')
    .option('--listen <address>', 'run the server on this HOST:PORT; port 0 takes a free port')
    .option('--once', 'stop the server after its first client')
    .option('--device <device>', 'mlx5_0 or mlx5_0/1 (default: the fastest port)')
    .option('--gid-index <index>', 'GID to use (default: the GID that Hearth prefers)', wholeNumber(0, 255))
    .option('--sizes <bytes>', 'sizes of a write in bytes, separated by commas', '4096,65536,1048576,4194304')
    .option('--depth <count>', 'number of writes in flight', wholeNumber(1, 64), 16)
    .option('--milliseconds <count>', 'duration of the measurement of each size', wholeNumber(1, 3_600_000), 1000)
    .addOption(new Option('--spin', 'poll the device, as perftest does, instead of waiting for events, as agents do'))
    .option('--dataset <name>', "make this node's agent read a dataset from other agents")
    .option('--path <glob>', 'with --dataset: read only matching files; may be repeated', collectWhole)
    .addHelpText(
      'after',
      examples(
        context,
        'bench rdma --listen 10.0.0.7:18600',
        'bench rdma 10.0.0.7:18600 --device mlx5_0',
        'bench rdma --dataset llama',
      ),
    )
    .action(act(context, run));
}

async function run(session: Session, options: Options, address?: string): Promise<undefined> {
  const ways = [options.listen, address, options.dataset].filter((way) => way !== undefined);
  if (ways.length !== 1) {
    throw new HearthError('InvalidArgument', 'give exactly one of the address of the server, --listen and --dataset');
  }
  if (options.dataset !== undefined) return await benchAgents(session, options.dataset, options.path ?? []);
  const { environment, interrupt, directory } = session.terminal;
  const { path, isThere } = findProgram(program, environment);
  if (!isThere) {
    throw new HearthError(
      'NotFound',
      `${path} does not exist; build it with \`make build\`, or name it by ${program.variable}`,
    );
  }
  const outcome = await runProgram(path, {
    words: wordsOf(options, address),
    directory,
    signal: interrupt,
    ...(options.listen === undefined
      ? {}
      : { onOutput: (text: string) => session.print(`listening on ${text.trim()}`) }),
  });
  if (outcome.code !== 0) throw failureOf(outcome.errorOutput, `${path} ${outcome.how}`);
  if (options.listen !== undefined) return;
  const measured = parse(outcome.output);
  if (session.json) session.printJson(measured);
  else show(session, measured);
}

function wordsOf(options: Options, address: string | undefined): string[] {
  const words = address === undefined ? ['--listen', options.listen ?? ''] : ['--connect', address];
  if (options.device !== undefined) words.push('--device', options.device);
  if (options.gidIndex !== undefined) words.push('--gid-index', String(options.gidIndex));
  if (options.spin === true) words.push('--spin');
  if (address === undefined) return options.once === true ? [...words, '--once'] : words;
  return [
    ...words,
    ...['--sizes', options.sizes],
    ...['--depth', String(options.depth)],
    ...['--milliseconds', String(options.milliseconds)],
  ];
}

/** Converts the last line, "hearth-rdma-bench: Unavailable: ...", to an error of that code. */
function failureOf(errorOutput: string, how: string): HearthError {
  const last = errorOutput.split('\n').at(-1) ?? '';
  const [, code, message] = /^hearth-rdma-bench: (\w+): (.*)$/.exec(last) ?? [];
  if (code !== undefined && message !== undefined && isErrorCode(code)) return new HearthError(code, message);
  if (errorOutput.includes('usage: hearth-rdma-bench')) {
    return new HearthError('InvalidArgument', `${program.name} does not take these values; see --help`);
  }
  return new HearthError('Internal', `${how}: ${errorOutput || 'it said nothing'}`);
}

function parse(output: string): Measured {
  try {
    return JSON.parse(output) as Measured;
  } catch {
    throw new HearthError(
      'ProtocolError',
      'hearth-rdma-bench wrote an invalid report; build it again with `make build`',
    );
  }
}

const fixed = (digits: number, value: (row: Row) => number) => (row: Row) => value(row).toFixed(digits);

const columns: Column<Row>[] = [
  { title: 'SIZE', value: (row) => formatBytes(BigInt(row.bytes)), align: 'right' },
  { title: 'GB/S', value: fixed(3, (row) => row.bytesPerSecond / 1e9), align: 'right' },
  { title: 'CPU S/GB THERE', value: fixed(3, (row) => row.serverSecondsPerGigabyte), align: 'right' },
  { title: 'CPU S/GB HERE', value: fixed(3, (row) => row.clientSecondsPerGigabyte), align: 'right' },
  { title: 'ANSWER US', value: fixed(1, (row) => row.medianMicroseconds), align: 'right' },
  { title: 'P99 US', value: fixed(1, (row) => row.p99Microseconds), align: 'right' },
];

function show(session: Session, { here, there, mtuBytes, rows }: Measured): void {
  session.print(
    `here   ${portText(here)}`,
    `there  ${portText(there)}`,
    `path   packets of ${mtuBytes} bytes, proved in both directions; every byte compared`,
    '',
  );
  session.printTable(columns, rows);
}

function portText({ device, gid, gidIndex, gidType, pci, numaNode, mtuBytes, bitsPerSecond }: Port): string {
  const speed = bitsPerSecond === 0 ? [] : [`${bitsPerSecond / 1e9} Gb/s`];
  const place = pci === '' ? [] : [`PCI ${pci}${numaNode < 0 ? '' : `, NUMA node ${numaNode}`}`];
  return printable(
    [`${device}, GID ${gidIndex} ${gid} (${gidType})`, `MTU ${mtuBytes}`, ...speed, ...place].join(', '),
  );
}
