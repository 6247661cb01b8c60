import { apiDifferences, sleep } from '@hearth/common';
import type { GetStatusResponse, NodeStatus } from '@hearth/common/generated/hearth/v1/control.ts';
import { Command } from 'commander';
import { ReconnectTimeout } from '../client/reconnect_timeout.ts';
import { printable, toneOf } from '../format/paint.ts';
import { renderBar } from '../format/progress.ts';
import { formatBytes, formatCount, formatSeconds, fractionOf } from '../format/quantity.ts';
import { LiveRegion } from '../live_region.ts';
import { act, type CommandContext, examples, firstLines, recorder, Session, watchSeconds } from '../session.ts';
import { statusView } from '../view.ts';
import { printDatasets } from './dataset.ts';
import { printJobs } from './job.ts';
import { printMounts } from './mount.ts';
import { rdmaLines } from './status_rdma.ts';
import { printVolumes } from './volume.ts';

const barWidth = 12;
const defaultWatchSeconds = 2;

/** `hearth status`: nodes, datasets, jobs, volumes and mounts, once or periodically. */
export function statusCommand(context: CommandContext): Command {
  return new Command('status')
    .description('Show nodes with their capacity, datasets, warm jobs, writable volumes, and the mounts of this node.')
    .option('--watch [seconds]', `refresh periodically (default: ${defaultWatchSeconds})`, watchSeconds)
    .addHelpText('after', examples(context, 'status', 'status --watch', 'status --watch 10 --json'))
    .action(
      act(context, async (session: Session, options: { watch?: number | true }) => {
        if (options.watch === undefined) await show(session);
        else await watch(session, options.watch === true ? defaultWatchSeconds : options.watch);
        return undefined;
      }),
    );
}

async function show(session: Session): Promise<void> {
  const status = await session.withAgent((agent) => agent.call('getStatus', {}));
  if (session.json) session.printJson(await statusView(status));
  else await printStatus(session, status);
}

/** Runs until interrupted, which is a success. Waits for an agent that goes away. */
async function watch(session: Session, seconds: number): Promise<void> {
  const { interrupt, clock } = session.terminal;
  const region = new LiveRegion(session.terminal);
  const reconnect = new ReconnectTimeout(session.timeoutMilliseconds, interrupt, clock);
  const waiting = () => {
    region.end();
    session.note('The agent went away; waiting for it to come back.');
  };
  try {
    await session.withAgent(async (agent) => {
      for (;;) {
        try {
          const status = await agent.call('getStatus', {});
          reconnect.answered();
          if (session.json) session.printJson(await statusView(status));
          else if (session.terminal.interactive) region.draw(await screenful(session, status));
          else await printStatus(session, status);
        } catch (thrown) {
          await reconnect.retry(thrown, waiting);
          continue;
        }
        await sleep(clock, seconds * 1000, interrupt);
        interrupt.throwIfAborted();
      }
    });
  } catch (thrown) {
    if (!interrupt.aborted) throw thrown;
  }
}

/** The status as lines that fit the screen. */
async function screenful(session: Session, status: GetStatusResponse): Promise<string[]> {
  const { sink, texts } = recorder();
  await printStatus(new Session({ ...session.terminal, stdout: sink }, { socket: session.socket }), status);
  return firstLines(texts, session.terminal.rows() - 1);
}

async function printStatus(session: Session, status: GetStatusResponse): Promise<void> {
  const ready = status.nodes.filter((node) => node.ready).length;
  session.print(
    `Cluster ${printable(status.cluster)}: ${formatCount(status.nodes.length, 'node')}, ${ready} ready; asked ${printable(status.node)}`,
    '',
  );
  printNodes(session, status.nodes);
  printHolders(session, status.nodes);
  const rdma = rdmaLines(status.nodes);
  if (rdma.length > 0) session.print('', ...rdma.map(printable));
  const differences = apiDifferences(status, 'this command');
  if (differences.length > 0) session.print('', ...differences.map((one) => `${printable(one)}.`));
  if (status.datasets.length > 0) {
    session.print('');
    await printDatasets(session, status.datasets);
  }
  if (status.jobs.length > 0) {
    session.print('');
    printJobs(session, status.jobs);
  }
  if (status.volumes.length > 0) {
    session.print('');
    printVolumes(session, status.volumes);
  }
  if (status.mounts.length > 0) {
    session.print('');
    printMounts(session, status.mounts);
  }
}

function printNodes(session: Session, nodes: NodeStatus[]): void {
  const state = (node: NodeStatus) => (node.ready ? 'ready' : 'not ready');
  session.printTable(
    [
      { title: 'NODE', value: (node) => node.node },
      { title: 'STATE', value: state, tone: (node) => toneOf(state(node)) },
      { title: 'ZONE', value: (node) => node.zone, omitEmpty: true, dispensable: 6 },
      {
        title: 'CACHE',
        value: (node) => renderBar(usedFraction(node), barWidth, session.terminal.unicode),
        tone: (node) => (usedFraction(node) > 0.9 ? 'warn' : 'plain'),
      },
      { title: 'USED', value: (node) => formatBytes(node.usedBytes), align: 'right' },
      { title: 'BUDGET', value: (node) => formatBytes(node.budgetBytes), align: 'right' },
      { title: 'DISK FREE', value: (node) => formatBytes(node.freeBytes), align: 'right', dispensable: 2 },
      { title: 'FROM ORIGIN', value: (node) => formatBytes(node.originBytes), align: 'right', dispensable: 3 },
      { title: 'FROM PEERS', value: (node) => formatBytes(node.peerBytesReceived), align: 'right', dispensable: 4 },
      { title: 'TO PEERS', value: (node) => formatBytes(node.peerBytesSent), align: 'right', dispensable: 5 },
      {
        title: 'BAD BLOCKS',
        value: (node) => (node.corruptBlocks > 0n ? String(node.corruptBlocks) : ''),
        align: 'right',
        omitEmpty: true,
        tone: () => 'bad',
      },
      {
        title: 'LIMITS',
        value: (node) => node.capabilities.find(({ name }) => name === 'limits')?.reason ?? '',
        flexible: true,
        omitEmpty: true,
        dispensable: 9,
      },
      { title: 'UP', value: (node) => formatSeconds(node.uptimeSeconds), align: 'right', dispensable: 7 },
      { title: 'VERSION', value: (node) => node.version, dispensable: 8 },
      {
        title: 'REASON',
        value: (node) => [node.reason, node.figuresMissing].filter(Boolean).join('; '),
        flexible: true,
        omitEmpty: true,
      },
    ],
    nodes,
  );
}

/** Mount holders outlive upgrades of their agents. Prints nothing while every holder has its agent's release. */
function printHolders(session: Session, nodes: NodeStatus[]): void {
  const holders = nodes.flatMap(({ node, capabilities }) =>
    capabilities.filter(({ name }) => name === 'holder').map(({ ready, reason }) => ({ node, ready, reason })),
  );
  const outdated = holders.filter(({ ready }) => !ready);
  if (outdated.length === 0) return;
  session.print('', `${outdated.length} of ${holders.length} mount holders are outdated:`);
  for (const { node, reason } of outdated) session.print(`  ${printable(node)}: ${printable(reason)}`);
}

function usedFraction(node: NodeStatus): number {
  return node.budgetBytes > 0n ? fractionOf(node.usedBytes, node.budgetBytes) : 0;
}
