import { HearthError } from '@hearth/common';
import type { NodeStatus } from '@hearth/common/generated/hearth/v1/control.ts';
import type { Probe } from '@hearth/engine';
import { nativeProbes } from '@hearth/node-agent/probe';
import { Argument, Command } from 'commander';
import { paint, printable, toneOf } from '../format/paint.ts';
import { formatCount } from '../format/quantity.ts';
import { displayWidth } from '../format/table.ts';
import { wrap } from '../format/wrap.ts';
import { act, type CommandContext, collectWhole, examples, type Session, wholeNumber } from '../session.ts';
import { agentRdmaProbe, peerAddresses } from './doctor_rdma.ts';

interface Options {
  cacheDirectory?: string[];
  peer?: string[];
  deadline: number;
}

const minNodeMajor = 24;
const statusWidth = 'degraded'.length;
const minTextWidth = 20;

/** Hearth cannot work without these; other missing features only slow reads down or disable an option. */
const needed = (name: string) => ['kernel', 'node', 'probes'].includes(name) || name.startsWith('disk ');

/** Rows of `hearth doctor gpu`, and the row that reports a missing hearth-probe. */
const aboutGpus = (name: string) =>
  ['gpu', 'cuda', 'nvidia-fs', 'cufile', 'gpu path', 'probes'].includes(name) || name.startsWith('gpu path ');

/** Rows of `hearth doctor rdma`. The row `limits` includes locked memory; an interface's MTU bounds the packets. */
const aboutRdma = (name: string) =>
  ['rdma', 'agent rdma', 'device files', 'peer memory', 'verbs', 'limits', 'probes'].includes(name) ||
  /^(rdma|gid|packets|route|near|nic) /.test(name);

const topics: Record<string, (name: string) => boolean> = { gpu: aboutGpus, rdma: aboutRdma };

/** `hearth doctor`: examines this machine, with or without a running agent. */
export function doctorCommand(context: CommandContext): Command {
  return new Command('doctor')
    .description(
      'Examine this machine: kernel, FUSE, disks, networks, RDMA, GPUs. Needs no agent.\n\n' +
        'The exit code is not 0 when a requirement of Hearth is missing.',
    )
    .addArgument(new Argument('[topic]', 'show only rows about GPUs, or about RDMA').choices(Object.keys(topics)))
    .option(
      '--cache-directory <directory>',
      'intended cache directory; may be repeated (default: from HEARTH_CACHE_DIRECTORIES)',
      collectWhole,
    )
    .option(
      '--peer <address>',
      "look up a route to another node's RDMA port; may be repeated (default: the ports of all nodes)",
      collectWhole,
    )
    .option('--deadline <seconds>', 'time limit of the probes, since drivers may hang', wholeNumber(1, 600), 20)
    .addHelpText(
      'after',
      examples(
        context,
        'doctor',
        'doctor gpu',
        'doctor rdma --peer 10.0.0.8',
        'doctor --cache-directory /mnt/nvme0/hearth',
        'doctor --json',
      ),
    )
    .action(act(context, run));
}

async function run(session: Session, options: Options, topic?: string): Promise<undefined> {
  const { environment, interrupt } = session.terminal;
  const agent = await askAgent(session, topic);
  const all = [
    nodeProbe(process.versions.node),
    ...agent.probes,
    ...(await nativeProbes({
      environment,
      directories: options.cacheDirectory ?? configuredDirectories(environment),
      rdmaPeers: options.peer ?? agent.rdmaPeers,
      deadlineSeconds: options.deadline,
      signal: interrupt,
    })),
  ];
  const isAsked = topic === undefined ? undefined : topics[topic];
  const probes = isAsked === undefined ? all : all.filter((probe) => isAsked(probe.name));
  if (session.json) session.printJson({ probes });
  else session.print(...probes.flatMap((probe) => probeLines(probe, probes, session)));
  const lost = probes.filter((probe) => probe.status === 'missing' && needed(probe.name));
  if (lost.length > 0) {
    throw new HearthError(
      'Unsupported',
      `${formatCount(lost.length, 'requirement')} missing: ${lost.map((probe) => probe.name).join(', ')}; follow the advice above`,
    );
  }
}

/** Paths of `PATH=BUDGET,...`, parsed as the agent parses the variable. */
function configuredDirectories(environment: Record<string, string | undefined>): string[] {
  const texts = (environment.HEARTH_CACHE_DIRECTORIES ?? '').split(',').map((text) => text.trim());
  return texts.filter((text) => text !== '').map((text) => text.replace(/=[^=]*$/, ''));
}

function nodeProbe(version: string): Probe {
  const recent = Number(version.split('.')[0]) >= minNodeMajor;
  return {
    name: 'node',
    status: recent ? 'ok' : 'missing',
    detail: `Node.js ${version}`,
    advice: recent ? '' : `Use Node.js ${minNodeMajor} or later; the checkout brings it: \`npm ci\`.`,
  };
}

/** Rows about this node's agent, and the RDMA ports of other agents that it knows. */
async function askAgent(session: Session, topic?: string): Promise<{ probes: Probe[]; rdmaPeers: string[] }> {
  try {
    const status = await session.withAgent((agent) => agent.call('getStatus', {}));
    const own = status.nodes.find((node) => node.node === status.node);
    const detail = `${status.node} of cluster ${status.cluster}, ${formatCount(status.nodes.length, 'node')}`;
    const agent: Probe =
      own?.ready === false
        ? {
            name: 'agent',
            status: 'degraded',
            detail: `${detail}, not ready: ${own.reason}`,
            advice: 'See its log.',
          }
        : { name: 'agent', status: 'ok', detail, advice: '' };
    // RDMA that nobody configured is not missing.
    const isOfRdma = own !== undefined && (own.rdma !== undefined || topic === 'rdma');
    const ofRdma = isOfRdma ? [agentRdmaProbe(own)] : [];
    return { probes: [agent, ...arenaProbes(own), ...ofRdma], rdmaPeers: peerAddresses(status.nodes, status.node) };
  } catch (thrown) {
    const error = HearthError.from(thrown);
    if (session.terminal.interrupt.aborted) throw error;
    const [detail = '', ...advice] = error.message.split('; ');
    return { probes: [{ name: 'agent', status: 'missing', detail, advice: advice.join('; ') }], rdmaPeers: [] };
  }
}

/** Memory of the agent's arena, which the row `arena pages` does not cover. */
function arenaProbes(own: NodeStatus | undefined): Probe[] {
  const arena = own?.capabilities.find(({ name }) => name === 'arena');
  if (arena === undefined) return [];
  const advice = arena.ready
    ? ''
    : 'The bytes in memory are lost when the agent ends. Start hearth-holder of the same release, and set holder.socket.';
  return [{ name: 'agent memory', status: arena.ready ? 'ok' : 'degraded', detail: arena.reason, advice }];
}

/** Name, status and detail, with the advice below the detail. */
function probeLines(probe: Probe, all: Probe[], session: Session): string[] {
  const { colour, columns } = session.terminal;
  const nameWidth = Math.max(...all.map((other) => displayWidth(other.name)));
  const indent = nameWidth + statusWidth + 4;
  const room = Math.max(minTextWidth, columns() - indent);
  const [first = '', ...rest] = [
    ...wrap(printable(probe.detail), room),
    ...(probe.advice === '' ? [] : wrap(printable(probe.advice), room).map((line) => paint(line, 'dim', colour))),
  ];
  const name = printable(probe.name) + ' '.repeat(nameWidth - displayWidth(probe.name));
  const status = paint(probe.status.padEnd(statusWidth), toneOf(probe.status), colour);
  return [`${name}  ${status}  ${first}`, ...rest.map((line) => ' '.repeat(indent) + line)];
}
