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
      'Fetch a dataset onto nodes and follow it. Ctrl-C stops following; the job goes on until `job cancel`.\n\n' +
        'The exit code is that of the job: 0 when every byte is there and verified. With --ready-when memory the command ends ' +
        'as soon as every byte is checked in memory, where readers find it; the job goes on until it is stored.',
    )
    .argument('<dataset>', 'name of the dataset')
    .argument('[paths...]', 'globs of files; none: all of it')
    .option('--node <name>', 'onto this node; may be repeated (default: all that are ready)', collect)
    .option('--replicas <count>', 'onto this many nodes, chosen by resident bytes and room', wholeNumber(1, 100_000))
    .option('--pin', 'pin the files on these nodes; the pins go when the job fails or is cancelled')
    .option('--pin-owner <name>', 'with --pin: whose pins they are; they stay until `unpin --owner`, however it ends')
    .option('--priority <number>', 'lower runs first', wholeNumber(0, 1000), 100)
    .option('--rate <bytes>', 'most bytes a second from the origin, all nodes together, e.g. 500MiB', parseRateOption)
    .option('--peer-rate <bytes>', 'most bytes a second that each node receives from other nodes', parseRateOption)
    .option('--deadline <duration>', 'give up after this time, e.g. 90s, 15m', parseSecondsOption)
    .addOption(
      new Option('--verify <how>', 'checks at the end: checksums from disk, also origin digests, or none')
        .choices(['none', 'checksum', 'digest'])
        .default('checksum'),
    )
    .addOption(
      new Option('--ready-when <where>', 'when to return: everything is stored on disk, or in memory already')
        .choices(['stored', 'memory'])
        .default('stored'),
    )
    .option('--name <job>', 'name of the job (default: chosen)', jobName)
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
    throw new HearthError('InvalidArgument', '--pin-owner is for --pin; give both or none');
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
