import { once } from 'node:events';
import { Command } from 'commander';
import { parseSizeOption } from '../quantity_options.ts';
import { act, type CommandContext, examples, type Session } from '../session.ts';

interface Options {
  offset?: bigint;
  length?: bigint;
}

export function catCommand(context: CommandContext): Command {
  return new Command('cat')
    .description('Write the bytes of a file to standard output; the agent fetches missing bytes.')
    .argument('<dataset>', 'name of the dataset')
    .argument('<path>', 'path of the file in the dataset')
    .option('--offset <bytes>', 'where to begin', parseSizeOption)
    .option('--length <bytes>', 'number of bytes (default: to the end)', parseSizeOption)
    .addHelpText(
      'after',
      examples(context, 'cat llama config.json', 'cat llama model.safetensors --offset 8 --length 4KiB'),
    )
    .action(act(context, run));
}

async function run(session: Session, options: Options, dataset: string, path: string): Promise<undefined> {
  // In the protocol a length of 0 means "to the end".
  if (options.length === 0n) return;
  const request = { dataset, path, offset: options.offset ?? 0n, length: options.length ?? 0n };
  const { stdout, interrupt } = session.terminal;
  await session.withAgent(async (agent) => {
    for await (const { data } of agent.stream('read', request)) {
      if (!stdout.write(data)) await once(stdout, 'drain', { signal: interrupt });
    }
  });
}
