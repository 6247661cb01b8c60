import { errorTable, HearthError, isErrorCode } from '@hearth/common';
import type { AdvisedNode, AdviseResponse } from '@hearth/common/generated/hearth/v1/control.ts';
import { Command, Option } from 'commander';
import { followJob } from '../follow_job.ts';
import { printable } from '../format/paint.ts';
import { formatBytes, formatCount } from '../format/quantity.ts';
import { act, type CommandContext, collect, examples, type Session } from '../session.ts';

interface Options {
  scope: 'node' | 'cluster';
  node?: string[];
  memory?: boolean;
  force?: boolean;
  follow?: boolean;
}

/** `hearth advise`: the hints that applications give by ioctl on their mounts, for any node or all nodes. */
export function adviseCommand(context: CommandContext): Command {
  return new Command('advise')
    .description('Advise agents which files will or will not be needed, as applications do by ioctl on a mount.')
    .addCommand(willNeedCommand(context))
    .addCommand(dontNeedCommand(context));
}

function willNeedCommand(context: CommandContext): Command {
  return advice(
    'willneed',
    'Fetch files in the background, with lower priority than reads. Agents merge repeated advice.',
  )
    .addOption(
      scope('node: fetch to this node, or to the given nodes; cluster: nodes share the bytes that no node holds'),
    )
    .option('--follow', 'follow the job, as `job watch` does')
    .addHelpText(
      'after',
      examples(
        context,
        'advise willneed llama',
        'advise willneed llama "adapters/**" --node gpu-1,gpu-2',
        'advise willneed llama --scope cluster --follow',
      ),
    )
    .action(
      act(context, async (session: Session, options: Options, dataset: string, paths: string[]) => {
        return await session.withAgent(async (agent) => {
          const { job } = await agent.call('advise', {
            ...request('willneed', options, dataset, paths),
            memoryOnly: false,
            force: false,
          });
          if (job === undefined) throw new HearthError('ProtocolError', 'the agent named no job');
          if (options.follow === true) return await followJob(session, agent, job.name);
          if (session.json) session.printJson(job);
          else {
            const where = formatCount(job.nodes.length, 'node');
            session.print(
              `${printable(job.name)} fetches ${printable(dataset)} on ${where}: ${job.nodes.map(({ node }) => printable(node)).join(', ')}`,
            );
          }
          return errorTable.Ok.exit;
        });
      }),
    );
}

function dontNeedCommand(context: CommandContext): Command {
  return advice(
    'dontneed',
    'Release files from memory and caches, except files that are pinned, open, in a mounted view, or lost at the ' +
      'origin.\n\nA later read fetches released files again. The command fails when an agent does not answer.',
  )
    .addOption(scope('node: this node, or the given nodes; cluster: all nodes'))
    .option('--memory', 'release memory only; caches keep their copies')
    .option('--force', 'also release files that the origin no longer has as listed; the last copy is lost')
    .addHelpText(
      'after',
      examples(
        context,
        'advise dontneed llama',
        'advise dontneed llama "checkpoint-1/**" --scope cluster',
        'advise dontneed llama --memory --node gpu-1',
      ),
    )
    .action(
      act(context, async (session: Session, options: Options, dataset: string, paths: string[]) => {
        const answer = await session.withAgent((agent) =>
          agent.call('advise', {
            ...request('dontneed', options, dataset, paths),
            memoryOnly: options.memory === true,
            force: options.force === true,
          }),
        );
        if (session.json) session.printJson(answer);
        else report(session, dataset, answer, options.memory === true);
        const code = answer.nodes.map(({ errorCode }) => errorCode).find(isErrorCode);
        return errorTable[code ?? 'Ok'].exit;
      }),
    );
}

function report(session: Session, dataset: string, answer: AdviseResponse, memoryOnly: boolean): void {
  session.printTable(
    [
      { title: 'NODE', value: (row: AdvisedNode) => row.node },
      { title: 'FILES', value: (row) => String(row.filesFreed), align: 'right' },
      { title: 'CACHE', value: (row) => formatBytes(row.bytesFreed), align: 'right' },
      { title: 'MEMORY', value: (row) => formatBytes(row.memoryBytesFreed), align: 'right' },
      {
        title: 'KEPT',
        value: (row) => String(row.filesKept),
        align: 'right',
        tone: (row) => (row.filesKept > 0n ? 'warn' : 'plain'),
      },
      { title: 'WHY', value: (row) => row.message, tone: () => 'warn', flexible: true, omitEmpty: true },
    ],
    answer.nodes,
  );
  const sum = (count: (row: AdvisedNode) => bigint) => answer.nodes.reduce((all, row) => all + count(row), 0n);
  const where = formatCount(answer.nodes.filter(({ errorCode }) => errorCode === '').length, 'node');
  const memory = formatBytes(sum((row) => row.memoryBytesFreed));
  const copies = `${formatCount(Number(sum((row) => row.filesFreed)), 'file')}, ${formatBytes(sum((row) => row.bytesFreed))} in caches and ${memory} in memory`;
  session.print(`\nReleased ${memoryOnly ? `${memory} in memory` : copies}, on ${where}`);
  if (answer.filesNotInOrigin > 0n) {
    const named = answer.pathsNotInOrigin.map(printable).join(', ');
    const more = answer.filesNotInOrigin > BigInt(answer.pathsNotInOrigin.length) ? ', ...' : '';
    session.print(
      `Kept ${formatCount(Number(answer.filesNotInOrigin), 'file')} (${formatBytes(answer.bytesNotInOrigin)}) that the origin of ${printable(dataset)} no longer has as listed: ${named}${more}; --force releases them, too`,
    );
  }
  if (answer.cancelledJobs.length > 0) {
    session.print(`Cancelled the jobs that fetched them: ${answer.cancelledJobs.map(printable).join(', ')}`);
  }
}

function request(advice: 'willneed' | 'dontneed', { scope, node }: Options, dataset: string, paths: string[]) {
  return { advice, dataset, paths, manifest: '', scope, nodes: node ?? [] };
}

function advice(name: string, description: string): Command {
  return new Command(name)
    .description(description)
    .argument('<dataset>', 'name of the dataset')
    .argument('[paths...]', 'globs of files, such as "folder/**" (default: all files)')
    .option('--node <name>', 'node; may be repeated (default: the node of the agent that is asked)', collect);
}

function scope(description: string): Option {
  return new Option('--scope <scope>', description).choices(['node', 'cluster']).default('node');
}
