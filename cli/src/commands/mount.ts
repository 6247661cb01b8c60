import { resolve } from 'node:path';
import type { MountRecord } from '@hearth/common/generated/hearth/v1/control.ts';
import { Command, Option } from 'commander';
import { printable } from '../format/paint.ts';
import { formatBytes } from '../format/quantity.ts';
import { act, type CommandContext, examples, type Session } from '../session.ts';

export function mountCommand(context: CommandContext): Command {
  return new Command('mount')
    .description('Mount a dataset on this node, read-only, or a writable volume.')
    .argument('<dataset>', 'name of the dataset, or volume:NAME')
    .argument('<directory>', 'empty directory on this node')
    .addOption(
      new Option(
        '--data-path <path>',
        'auto: the view when the node holds every file, else FUSE; view; fuse; daemon: FUSE without passthrough',
      )
        .choices(['auto', 'view', 'fuse', 'daemon'])
        .default('auto'),
    )
    .addHelpText(
      'after',
      examples(context, 'mount llama /mnt/llama', 'mount llama /mnt/llama --data-path fuse', 'mount volume:kv /mnt/kv'),
    )
    .action(
      act(context, async (session: Session, options: { dataPath: string }, dataset: string, directory: string) => {
        const target = resolve(session.terminal.directory, directory);
        const mount = await session.withAgent((agent) =>
          agent.call('mount', { dataset, target, dataPath: options.dataPath }),
        );
        if (session.json) session.printJson(mount);
        else {
          const why = mount.reason === '' ? '' : ` (${printable(mount.reason)})`;
          session.print(
            `Mounted ${printable(mount.dataset)} on ${printable(mount.target)}, data path ${mount.dataPath}${why}`,
          );
        }
        return undefined;
      }),
    );
}

export function umountCommand(context: CommandContext): Command {
  return new Command('umount')
    .alias('unmount')
    .description('Unmount a dataset or volume from this node.')
    .argument('<mount-point>', 'mount point')
    .addHelpText('after', examples(context, 'umount /mnt/llama'))
    .action(
      act(context, async (session: Session, _options: object, directory: string) => {
        const target = resolve(session.terminal.directory, directory);
        await session.withAgent((agent) => agent.call('unmount', { target }));
        if (session.json) session.printJson({ target });
        else session.print(`Unmounted ${printable(target)}`);
        return undefined;
      }),
    );
}

export function mountsCommand(context: CommandContext): Command {
  return new Command('mounts')
    .description('List the mounts of this node with their data paths.')
    .addHelpText('after', examples(context, 'mounts'))
    .action(
      act(context, async (session: Session) => {
        const { mounts } = await session.withAgent((agent) => agent.call('listMounts', {}));
        if (session.json) session.printJson({ mounts });
        else if (mounts.length === 0) session.note('Nothing is mounted on this node.');
        else printMounts(session, mounts);
        return undefined;
      }),
    );
}

/** The table of `mounts` and `status`. */
export function printMounts(session: Session, mounts: MountRecord[]): void {
  session.printTable(
    [
      { title: 'MOUNT POINT', value: (mount) => mount.target, flexible: true },
      { title: 'DATASET', value: (mount) => mount.dataset },
      { title: 'DATA PATH', value: (mount) => mount.dataPath },
      { title: 'READS', value: (mount) => String(mount.readsServed), align: 'right' },
      { title: 'BYTES', value: (mount) => formatBytes(mount.bytesServed), align: 'right' },
      { title: 'PASSTHROUGH', value: (mount) => String(mount.passthroughOpens), align: 'right', dispensable: 2 },
      { title: 'DAEMON', value: (mount) => String(mount.daemonOpens), align: 'right', dispensable: 1 },
      { title: 'WHY NOT BETTER', value: (mount) => mount.reason, flexible: true, omitEmpty: true },
    ],
    mounts,
  );
}
