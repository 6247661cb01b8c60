import { HearthError } from '@hearth/common';
import type { GetStatusResponse, NodeStatus, RdmaPort, WarmJob } from '@hearth/common/generated/hearth/v1/control.ts';
import type { AgentClient } from '../client/agent_client.ts';
import { printable } from '../format/paint.ts';
import { formatBytes, formatCount } from '../format/quantity.ts';
import type { Session } from '../session.ts';

/** Reads of this node's agent from other agents. */
interface MeasuredAgents {
  node: string;
  port: Pick<RdmaPort, 'name' | 'link' | 'gid' | 'mtuBytes'>;
  dataset: string;
  bytes: bigint;
  /** Seconds until all bytes were verified in memory, or until stored when the agent does not report memory. */
  seconds: number;
  bytesPerSecond: number;
  rdmaBytes: bigint;
  tcpBytes: bigint;
  originBytes: bigint;
  /** Connections that failed during the reads. */
  failures: bigint;
  peersOverTcp: number;
  peersReason: string;
}

/**
 * Makes this node's agent drop files of a dataset and read them again as its readers do, and reports the speed and the
 * share of RDMA. Throws `Unavailable` with the reason where the agent does not use RDMA.
 */
export async function benchAgents(session: Session, dataset: string, paths: string[]): Promise<undefined> {
  const measured = await session.withAgent((agent) => measure(agent, dataset, paths));
  if (session.json) session.printJson(measured);
  else session.print(...linesOf(measured));
  if (measured.rdmaBytes + measured.tcpBytes > 0n) return;
  session.note(
    `No other agent has these bytes: run \`${session.terminal.program} warm ${printable(dataset)} --node OTHER\` first.`,
  );
}

async function measure(agent: AgentClient, dataset: string, paths: string[]): Promise<MeasuredAgents> {
  const before = ownNode(await agent.call('getStatus', {}));
  const from = portOf(before);
  const evicted = await agent.call('evict', { dataset, paths, nodes: [before.node] });
  for (const { message } of evicted.nodes) if (message !== '') throw new HearthError('Unavailable', message);
  const job = await warm(agent, dataset, paths, before.node);
  const [{ peerBytes = 0n, originBytes = 0n } = {}] = job.nodes;
  const bytes = peerBytes + originBytes;
  if (bytes === 0n) {
    throw new HearthError(
      'NotFound',
      `the agent read no byte of ${dataset}: pins or other files keep its bytes in the cache`,
    );
  }
  const after = await published(agent, comeTo(before) + bytes);
  const to = portOf(after);
  const rdmaBytes = to.bytesReceived - from.bytesReceived;
  const fromPeers = after.peerBytesReceived - before.peerBytesReceived;
  const seconds = job.secondsToMemory || job.secondsToStored;
  return {
    node: before.node,
    port: { name: to.name, link: to.link, gid: to.gid, mtuBytes: to.mtuBytes },
    dataset,
    bytes,
    seconds,
    bytesPerSecond: Number(bytes) / seconds,
    rdmaBytes,
    tcpBytes: fromPeers > rdmaBytes ? fromPeers - rdmaBytes : 0n,
    originBytes,
    failures: to.failures - from.failures,
    peersOverTcp: after.rdma?.peersOverTcp ?? 0,
    peersReason: after.rdma?.peersReason ?? '',
  };
}

function ownNode({ node, nodes }: GetStatusResponse): NodeStatus {
  const own = nodes.find((each) => each.node === node);
  if (own === undefined)
    throw new HearthError('Unavailable', `the agent ${node} has not joined the cluster yet; try again`);
  return own;
}

/** The RDMA port that carries reads. */
function portOf({ rdma }: NodeStatus): RdmaPort {
  if (rdma === undefined) {
    throw new HearthError('Unavailable', 'engine.rdma of this agent is off; set it to auto, and restart the agent');
  }
  const port = rdma.ports.find(({ used }) => used);
  if (rdma.reason !== '' || port === undefined) {
    throw new HearthError('Unavailable', `this agent reads over TCP: ${rdma.reason}; see \`hearth doctor rdma\``);
  }
  return port;
}

async function warm(agent: AgentClient, dataset: string, paths: string[], node: string): Promise<WarmJob> {
  const { name } = await agent.call('createWarmJob', {
    ...{ dataset, paths, nodes: [node], replicas: 0, manifest: '', pin: false, pinOwner: '', priority: 0 },
    ...{ rateLimit: 0n, peerRateLimit: 0n, deadlineSeconds: 0n, verify: 'none', name: '', ensure: false },
    readyWhen: 'memory',
  });
  let last: WarmJob | undefined;
  for await (const job of agent.stream('watchWarmJob', { name })) last = job;
  if (last?.state === 'Succeeded') return last;
  throw new HearthError(
    'Unavailable',
    `the job ${name} did not succeed: ${last?.message ?? 'the agent gave no reason'}`,
  );
}

const comeTo = ({ peerBytesReceived, originBytes }: NodeStatus): bigint => peerBytesReceived + originBytes;

/** Waits until the node has published this many bytes; agents publish every few seconds. */
async function published(agent: AgentClient, bytes: bigint): Promise<NodeStatus> {
  for await (const status of agent.stream('watchStatus', { intervalMs: 0 })) {
    const node = ownNode(status);
    if (comeTo(node) >= bytes) return node;
  }
  throw new HearthError('Unavailable', 'the agent stopped before it reported its reads; try again');
}

function linesOf(measured: MeasuredAgents): string[] {
  const { node, port, dataset, bytes, seconds, rdmaBytes, tcpBytes, originBytes, failures } = measured;
  const { peersOverTcp, peersReason } = measured;
  const why = peersOverTcp === 0 ? '' : `; over TCP with ${formatCount(peersOverTcp, 'node')}: ${peersReason}`;
  return [
    `here   ${node}: ${port.name} (${port.link}, ${port.gid}), packets of at most ${port.mtuBytes} bytes`,
    `read   ${formatBytes(bytes)} of ${dataset} in ${seconds.toFixed(3)} s, ${(Number(bytes) / seconds / 1e9).toFixed(3)} GB/s`,
    `path   ${formatBytes(rdmaBytes)} by RDMA, ${formatBytes(tcpBytes)} over TCP, ${formatBytes(originBytes)} from the origin; ${formatCount(failures, 'failure')}${why}`,
  ].map(printable);
}
