import type { PeerStatistics, Statistics } from '@hearth/engine';
import type { Capability } from '../capabilities/index.ts';
import { latencyBelow, noTraffic, railsByPort } from './rdma_rails.ts';
import type { NodeRdma } from './record.ts';

type Engine = Pick<Statistics, 'rdma' | 'peers'>;

/** Maximum length of a reason, because every report of the node contains it. */
const maxReasonLength = 500;

/** RDMA reads by and from this agent; undefined when RDMA is off. */
export function rdmaOf({ rdma, peers }: Engine): NodeRdma | undefined {
  if (rdma.use === 'off') return undefined;
  const others = peers.filter(({ node }) => node !== '');
  const overTcp = rdma.reason === '' ? others.filter(isOverTcp) : [];
  const rails = railsByPort(others);
  return {
    use: rdma.use,
    reason: rdma.reason.slice(0, maxReasonLength),
    ports: rdma.ports.map(({ name, link, gid, mtuBytes, bitsPerSecond, active, used, hasWindows }) => {
      const carried = rails.get(name) ?? noTraffic;
      return {
        name,
        link,
        gid,
        mtuBytes,
        bitsPerSecond,
        active,
        used,
        bytesReceived: carried.bytesReceived,
        bytesSent: carried.bytesSent,
        requests: carried.requests + carried.answers,
        failures: carried.failures,
        retries: carried.retries,
        pauses: carried.pauses,
        medianMicroseconds: latencyBelow(carried.latency, 0.5),
        p99Microseconds: latencyBelow(carried.latency, 0.99),
        inMessages: !hasWindows,
      };
    }),
    refused: rdma.refused.map(({ port, reason }) => ({ port, reason: reason.slice(0, maxReasonLength) })),
    peers: others.filter((peer) => peer.rdma.port !== '').length,
    peersOverTcp: overTcp.length,
    peersReason: overTcp.map(({ node, rdma: { reason } }) => `${node}: ${reason}`)[0]?.slice(0, maxReasonLength) ?? '',
  };
}

/** An agent that was never read from has neither a port nor a reason. */
function isOverTcp({ rdma: { port, reason } }: PeerStatistics): boolean {
  return port === '' && reason !== '';
}

/** RDMA as a capability; undefined when RDMA is off. Changes rarely. */
export function rdmaCapability(rdma: NodeRdma | undefined): Capability[] {
  if (rdma === undefined) return [];
  const refused = rdma.refused.map(({ port, reason }) => (port === '' ? reason : `${port} is not used: ${reason}`));
  const used = rdma.ports.filter((port) => port.used).map(({ name, link, gid }) => `${name} (${link}, ${gid})`);
  const clauses = rdma.reason === '' ? [...used, ...refused] : [rdma.reason];
  return [{ name: 'rdma-reads', ready: rdma.reason === '', reason: clauses.join('; ') }];
}
