import { HearthError } from '@hearth/common';
import type { PinRequest } from '@hearth/common/generated/hearth/v1/control.ts';
import { Command } from 'commander';
import { printable } from '../format/paint.ts';
import { formatBytes, formatCount } from '../format/quantity.ts';
import { act, type CommandContext, collect, examples, type Session } from '../session.ts';

interface Options {
  node?: string[];
  owner?: string;
}

const defaultOwner = 'user';

export function evictCommand(context: CommandContext): Command {
  return placement('evict', 'Evict the bytes of a dataset from caches. Files in use or pinned stay.')
    .addHelpText('after', examples(context, 'evict llama', 'evict llama "*.bin" --node gpu-1'))
    .action(
      act(context, async (session: Session, options: Options, dataset: string, paths: string[]) => {
        const request = { dataset, paths, nodes: options.node ?? [] };
        const { nodes } = await session.withAgent((agent) => agent.call('evict', request));
        if (session.json) session.printJson({ nodes });
        else {
          session.printTable(
            [
              { title: 'NODE', value: (row) => row.node },
              { title: 'FREED', value: (row) => formatBytes(row.bytesFreed), align: 'right' },
              { title: 'FILES', value: (row) => String(row.filesFreed), align: 'right' },
              {
                title: 'KEPT',
                value: (row) => String(row.filesKept),
                align: 'right',
                tone: (row) => (row.filesKept > 0n ? 'warn' : 'plain'),
              },
              { title: 'MESSAGE', value: (row) => row.message, tone: () => 'warn', flexible: true, omitEmpty: true },
            ],
            nodes,
          );
        }
        return undefined;
      }),
    );
}

export function pinCommand(context: CommandContext): Command {
  return placement('pin', 'Pin the files of a dataset in caches: agents do not evict pinned files.')
    .option(
      '--owner <name>',
      `owner of the pins; a file stays pinned while any owner pins it (default: ${defaultOwner})`,
    )
    .addHelpText('after', examples(context, 'pin llama', 'pin llama "*.safetensors" --node gpu-1'))
    .action(act(context, pinAction('pin')));
}

export function unpinCommand(context: CommandContext): Command {
  return placement('unpin', 'Allow the files of a dataset to be evicted again.')
    .option('--owner <name>', `owner of the pins (default: ${defaultOwner}; jobs are job:NAME)`)
    .addHelpText('after', examples(context, 'unpin llama', 'unpin llama --owner job:warm-llama-1'))
    .action(act(context, pinAction('unpin')));
}

function placement(name: string, description: string): Command {
  return new Command(name)
    .description(description)
    .argument('<dataset>', 'name of the dataset')
    .argument('[paths...]', 'globs of files (default: all files)')
    .option('--node <name>', 'node; may be repeated (default: all nodes)', collect);
}

function pinAction(verb: 'pin' | 'unpin') {
  return async (session: Session, options: Options, dataset: string, paths: string[]): Promise<undefined> => {
    const whose = { owner: options.owner ?? defaultOwner, manifest: '', tolerant: false, moreOwners: [] };
    const request: PinRequest = { dataset, paths, nodes: options.node ?? [], ...whose };
    const { nodes } = await session.withAgent((agent) => agent.call(verb, request));
    if (nodes.length === 0) {
      throw new HearthError('NotFound', `no node answered for ${dataset}; run status to see which nodes are ready`);
    }
    if (session.json) session.printJson({ nodes });
    else {
      const done = verb === 'pin' ? 'Pinned' : 'Unpinned';
      session.print(
        `${done} ${printable(dataset)} on ${formatCount(nodes.length, 'node')}: ${nodes.map(printable).join(', ')}`,
      );
    }
  };
}
