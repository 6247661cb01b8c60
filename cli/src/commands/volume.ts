import type { VolumeFollower, WritableVolume } from '@hearth/common/generated/hearth/v1/control.ts';
import { Command, Option } from 'commander';
import { printable, toneOf } from '../format/paint.ts';
import { formatBytes, formatCount, formatPercent, formatSeconds, fractionOf } from '../format/quantity.ts';
import { parseCountOption, parseSecondsOption, parseSizeOption } from '../quantity_options.ts';
import { act, type CommandContext, examples, type Session } from '../session.ts';

export function volumeCommand(context: CommandContext): Command {
  return new Command('volume')
    .description('Create, list, resize and delete writable volumes: trees of files that all nodes share.')
    .addCommand(createCommand(context))
    .addCommand(listCommand(context))
    .addCommand(showCommand(context))
    .addCommand(usageCommand(context))
    .addCommand(resizeCommand(context))
    .addCommand(deleteCommand(context));
}

interface CreateOptions {
  kind: string;
  size: bigint;
  files: bigint;
  deadline: bigint;
}

function createCommand(context: CommandContext): Command {
  return new Command('create')
    .description(
      'Create a volume whose log of names this node keeps, with copies on two others. Creating an equal volume again does nothing.\n\n' +
        'A scratch volume keeps each file on the node that wrote it; the files of a node are lost with its disk.',
    )
    .argument('<name>', 'name of the volume')
    .addOption(new Option('--kind <kind>', 'how its bytes are kept').choices(['scratch']).default('scratch'))
    .option('--size <bytes>', 'limit of its published files, such as 10Gi (default: none)', parseSizeOption, 0n)
    .option('--files <count>', 'limit of files, folders and links (default: none)', parseCountOption, 0n)
    .option(
      '--deadline <time>',
      'operations that wait for an agent to lead the volume fail after it (default: 10s)',
      parseSecondsOption,
      0n,
    )
    .addHelpText('after', examples(context, 'volume create kv --size 10Gi', 'mount volume:kv /mnt/kv'))
    .action(
      act(context, async (session: Session, { kind, size, files, deadline }: CreateOptions, name: string) => {
        const request = { name, kind, maxBytes: size, maxFiles: files, deadlineMs: deadline * 1000n };
        const volume = await session.withAgent((agent) => agent.call('createWritableVolume', request));
        if (session.json) session.printJson(volume);
        else session.print(`Volume ${printable(volume.name)}: ${volume.kind}, ${limitText(volume)}`);
        return undefined;
      }),
    );
}

function listCommand(context: CommandContext): Command {
  return new Command('ls')
    .alias('list')
    .description('List the writable volumes of the cluster.')
    .addHelpText('after', examples(context, 'volume ls', 'volume ls --json'))
    .action(
      act(context, async (session: Session) => {
        const { volumes } = await session.withAgent((agent) => agent.call('listWritableVolumes', {}));
        if (session.json) session.printJson({ volumes });
        else if (volumes.length === 0) session.note('There are no writable volumes. Create one with `volume create`.');
        else printVolumes(session, volumes);
        return undefined;
      }),
    );
}

/** The table of `volume ls` and `status`. */
export function printVolumes(session: Session, volumes: WritableVolume[]): void {
  session.printTable(
    [
      { title: 'VOLUME', value: (volume) => volume.name },
      { title: 'STATE', value: (volume) => volume.state, tone: (volume) => toneOf(volume.state) },
      { title: 'KIND', value: (volume) => volume.kind, dispensable: 2 },
      { title: 'USED', value: (volume) => formatBytes(volume.usedBytes), align: 'right' },
      { title: 'SIZE', value: (volume) => sizeText(volume.maxBytes), align: 'right' },
      { title: 'FILES', value: (volume) => String(volume.files), align: 'right' },
      { title: 'LEADER', value: (volume) => volume.leader },
      { title: 'EPOCH', value: (volume) => String(volume.epoch), align: 'right', dispensable: 3 },
      { title: 'MESSAGE', value: (volume) => volume.message, tone: () => 'warn', flexible: true, omitEmpty: true },
    ],
    volumes,
  );
}

function showCommand(context: CommandContext): Command {
  return new Command('show')
    .description('Show one volume: its leader, its limits, and the nodes that write files of it.')
    .argument('<name>', 'name of the volume')
    .addHelpText('after', examples(context, 'volume show kv'))
    .action(
      act(context, async (session: Session, _options: object, name: string) => {
        const volume = await session.withAgent((agent) => agent.call('getWritableVolume', { name }));
        if (session.json) session.printJson(volume);
        else printVolume(session, volume);
        return undefined;
      }),
    );
}

function printVolume(session: Session, volume: WritableVolume): void {
  const leader = volume.leader === '' ? 'none' : `${volume.leader}, epoch ${volume.epoch}`;
  session.print(
    `Volume   ${printable(volume.name)} (${printable(volume.kind)})`,
    `State    ${printable(volume.state)}${volume.message === '' ? '' : `: ${printable(volume.message)}`}`,
    `Used     ${usageText(volume)}`,
    ...(volume.evictedFiles === 0n ? [] : [`Evicted  ${evictedText(volume)}`]),
    `Leader   ${printable(leader)}`,
    `Deadline ${formatSeconds(volume.deadlineMs / 1000n)}`,
    `Log      on ${printable([volume.logNode, ...volume.followers.map(followerText)].join(', '))}`,
    `Created  ${printable(volume.createdAt)}`,
    `Id       ${printable(volume.id)}`,
  );
  if (volume.nodes.length === 0) return;
  session.print('');
  session.printTable(
    [
      { title: 'NODE', value: (row) => row.node },
      { title: 'SESSIONS', value: (row) => String(row.sessions), align: 'right' },
      { title: 'BYTES', value: (row) => formatBytes(row.sessionBytes), align: 'right' },
    ],
    volume.nodes,
  );
}

function followerText({ node, listed, lag, error }: VolumeFollower): string {
  const behind = lag === 0n ? '' : `${formatCount(lag, 'record')} behind`;
  const notes = [listed ? '' : 'may not lead yet', behind, error].filter((note) => note !== '');
  return notes.length === 0 ? node : `${node} (${notes.join('; ')})`;
}

function usageCommand(context: CommandContext): Command {
  return new Command('du')
    .description('Show the bytes and files of volumes against their limits.')
    .argument('[names...]', 'names of volumes (default: all)')
    .addHelpText('after', examples(context, 'volume du', 'volume du kv'))
    .action(
      act(context, async (session: Session, _options: object, names: string[]) => {
        const volumes = await session.withAgent(async (agent) => {
          if (names.length === 0) return (await agent.call('listWritableVolumes', {})).volumes;
          return await Promise.all(names.map((name) => agent.call('getWritableVolume', { name })));
        });
        const rows = volumes.map((volume) => ({ ...volume, sessionBytes: sessionBytes(volume) }));
        if (session.json) session.printJson({ volumes: rows.map(usageView) });
        else {
          session.printTable(
            [
              { title: 'VOLUME', value: (row) => row.name },
              { title: 'PUBLISHED', value: (row) => formatBytes(row.usedBytes), align: 'right' },
              { title: 'SIZE', value: (row) => sizeText(row.maxBytes), align: 'right' },
              { title: 'USE', value: (row) => percentText(row), align: 'right' },
              { title: 'BEING WRITTEN', value: (row) => formatBytes(row.sessionBytes), align: 'right' },
              { title: 'FILES', value: (row) => String(row.files), align: 'right' },
              {
                title: 'MAX FILES',
                value: (row) => (row.maxFiles === 0n ? '-' : String(row.maxFiles)),
                align: 'right',
              },
            ],
            rows,
          );
        }
        return undefined;
      }),
    );
}

function usageView({
  name,
  usedBytes,
  maxBytes,
  sessionBytes,
  files,
  maxFiles,
}: WritableVolume & { sessionBytes: bigint }) {
  return { name, usedBytes, maxBytes, sessionBytes, files, maxFiles };
}

function resizeCommand(context: CommandContext): Command {
  return new Command('resize')
    .description('Raise the limit of the published files of a volume. Its leader and its mounts follow at once.')
    .argument('<name>', 'name of the volume')
    .argument('<size>', 'new limit, such as 20Gi; at least the present one', parseSizeOption)
    .addHelpText('after', examples(context, 'volume resize kv 20Gi'))
    .action(
      act(context, async (session: Session, _options: object, name: string, maxBytes: bigint) => {
        const volume = await session.withAgent((agent) => agent.call('resizeWritableVolume', { name, maxBytes }));
        if (session.json) session.printJson(volume);
        else session.print(`Volume ${printable(volume.name)}: ${limitText(volume)}`);
        return undefined;
      }),
    );
}

function deleteCommand(context: CommandContext): Command {
  return new Command('delete')
    .alias('rm')
    .description('Delete a volume with all its files, on every node.')
    .argument('<name>', 'name of the volume')
    .option('--force', 'delete it although it is mounted: its mounts answer ENOENT from then on')
    .addHelpText('after', examples(context, 'volume delete kv'))
    .action(
      act(context, async (session: Session, options: { force?: boolean }, name: string) => {
        const force = options.force === true;
        await session.withAgent((agent) => agent.call('deleteWritableVolume', { name, force }));
        if (session.json) session.printJson({ name });
        else session.print(`Deleted volume ${printable(name)}`);
        return undefined;
      }),
    );
}

function sessionBytes({ nodes }: WritableVolume): bigint {
  return nodes.reduce((sum, node) => sum + node.sessionBytes, 0n);
}

function sizeText(bytes: bigint): string {
  return bytes === 0n ? '-' : formatBytes(bytes);
}

function percentText({ usedBytes, maxBytes }: WritableVolume): string {
  return maxBytes === 0n ? '-' : formatPercent(fractionOf(usedBytes, maxBytes)).trim();
}

function limitText({ maxBytes, maxFiles }: WritableVolume): string {
  const size = maxBytes === 0n ? 'no limit of bytes' : `at most ${formatBytes(maxBytes)}`;
  return maxFiles === 0n ? size : `${size}, at most ${formatCount(maxFiles, 'file')}`;
}

function evictedText({ evictedFiles, evictedYoungFiles: young }: WritableVolume): string {
  const files = `${formatCount(evictedFiles, 'file')} since the leader began`;
  return young === 0n ? files : `${files}, ${young} of them changed less than an hour before`;
}

function usageText(volume: WritableVolume): string {
  return `${formatBytes(volume.usedBytes)} in ${formatCount(volume.files, 'file')}; ${limitText(volume)}`;
}
