import { errorTable, HearthError } from '@hearth/common';
import { Command, InvalidArgumentError, Option } from 'commander';
import { followJob } from '../follow_job.ts';
import { printable } from '../format/paint.ts';
import { parseRateOption, parseSecondsOption } from '../quantity_options.ts';
import { act, type CommandContext, collect, examples, type Session, wholeNumber } from '../session.ts';

interface Options {
  node?: string[];
  replicas?: number;
  pin?: boolean;
  pinOwner?: string;
  priority: number;
  rate?: bigint;
  peerRate?: bigint;
  deadline?: bigint;
  verify: string;
  readyWhen: 'stored' | 'memory';
  name?: string;
  detach?: boolean;
}

/** `hearth warm`: fetches a dataset onto nodes and shows progress. */
export function warmCommand(context: CommandContext): Command {
  return new Command('warm')
    .description(
      'Fetch a dataset onto nodes and follow the job. Ctrl-C stops following; the job continues until `job cancel`.\n\n' +
        'The exit code is that of the job: 0 when every byte is stored and verified. With --ready-when memory the command returns ' +
        'as soon as every byte is verified in memory, where readers find it; the job continues until all is stored.',
    )
    .argument('<dataset>', 'name of the dataset')
    .argument('[paths...]', 'globs of files (default: all files)')
    .option('--node <name>', 'target node; may be repeated (default: all ready nodes)', collect)
    .option('--replicas <count>', 'number of target nodes, chosen by resident bytes and room', wholeNumber(1, 100_000))
    .option('--pin', 'pin the files on these nodes; a failed or cancelled job releases its pins')
    .option(
      '--pin-owner <name>',
      'with --pin: owner of the pins, which stay until `unpin --owner` however the job ends',
    )
    .option('--priority <number>', 'lower runs first', wholeNumber(0, 1000), 100)
    .option(
      '--rate <bytes>',
      'maximum bytes a second from the origin, all nodes together, such as 500MiB',
      parseRateOption,
    )
    .option('--peer-rate <bytes>', 'maximum bytes a second that each node receives from other nodes', parseRateOption)
    .option('--deadline <duration>', 'give up after this time, such as 90s or 15m', parseSecondsOption)
    .addOption(
      new Option('--verify <how>', 'final check: checksums from disk, also digests of the origin, or none')
        .choices(['none', 'checksum', 'digest'])
        .default('checksum'),
    )
    .addOption(
      new Option('--ready-when <where>', 'return when every byte is stored on disk, or already when it is in memory')
        .choices(['stored', 'memory'])
        .default('stored'),
    )
    .option('--name <job>', 'name of the job (default: generated)', jobName)
    .option('--detach', 'do not follow the job; print its name')
    .addHelpText(
      'after',
      examples(
        context,
        'warm llama',
        'warm llama "*.safetensors" --node gpu-1,gpu-2 --pin',
        'warm llama --replicas 3 --rate 500MiB --deadline 15m',
        'warm llama --ready-when memory',
        'warm llama --json',
      ),
    )
    .action(act(context, run));
}

async function run(session: Session, options: Options, dataset: string, paths: string[]): Promise<number> {
  if (options.pinOwner !== undefined && options.pin !== true) {
    throw new HearthError('InvalidArgument', '--pin-owner requires --pin');
  }
  return await session.withAgent(async (agent) => {
    const job = await agent.call('createWarmJob', {
      dataset,
      paths,
      nodes: options.node ?? [],
      replicas: options.replicas ?? 0,
      manifest: '',
      pin: options.pin === true,
      pinOwner: options.pinOwner ?? '',
      priority: options.priority,
      rateLimit: options.rate ?? 0n,
      peerRateLimit: options.peerRate ?? 0n,
      deadlineSeconds: options.deadline ?? 0n,
      verify: options.verify,
      name: options.name ?? '',
      ensure: false,
      readyWhen: options.readyWhen,
    });
    const memory = options.readyWhen === 'memory';
    // The agent is older than --ready-when.
    if (memory && job.readyWhen === '') session.note(storedOnly);
    if (options.detach !== true) return await followJob(session, agent, job.name, memory ? 'ready' : 'ended');
    if (session.json) session.printJson(job);
    else session.print(printable(job.name));
    return errorTable.Ok.exit;
  });
}

const storedOnly =
  'The agent does not report bytes in memory: the job is ready when its bytes are stored. Upgrade the agent for --ready-when memory.';

function jobName(text: string): string {
  if (text === '') throw new InvalidArgumentError('It must not be empty.');
  return text;
}
