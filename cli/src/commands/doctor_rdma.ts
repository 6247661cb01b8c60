import type { NodeStatus, RdmaStatus } from '@hearth/common/generated/hearth/v1/control.ts';
import type { Probe } from '@hearth/engine';
import { formatCount } from '../format/quantity.ts';

const name = 'agent rdma';

/** This agent's use of RDMA, and the reason when reads use TCP. */
export function agentRdmaProbe({ rdma }: NodeStatus): Probe {
  if (rdma === undefined) {
    return {
      name,
      status: 'degraded',
      detail: 'engine.rdma is off, so the agent reads from others over TCP',
      advice: 'Set engine.rdma to auto, or rdma of the node group, and restart the agent.',
    };
  }
  if (rdma.reason !== '') {
    const advice = 'Reads go over TCP. Fix the reason, and restart the agent unless the reason is a port that is down.';
    return { name, status: 'degraded', detail: rdma.reason, advice };
  }
  const detail = `${portsOf(rdma)}, with ${formatCount(rdma.peers, 'node')}`;
  if (rdma.peersOverTcp === 0) return { name, status: 'ok', detail, advice: '' };
  const others = `; over TCP with ${formatCount(rdma.peersOverTcp, 'node')}: ${rdma.peersReason}`;
  const advice =
    'Test the path to that node: `hearth bench rdma --listen ADDRESS` there, and `hearth bench rdma` here.';
  return { name, status: 'degraded', detail: detail + others, advice };
}

function portsOf({ ports }: RdmaStatus): string {
  return ports
    .filter(({ used }) => used)
    .map((port) => `${port.name} (${port.link}, ${port.gid}, packets of ${port.mtuBytes} bytes)`)
    .join(', ');
}

/**
 * Routable addresses of other nodes' ports; InfiniBand ports are left out, because a subnet manager makes their paths.
 */
export function peerAddresses(nodes: readonly NodeStatus[], self: string): string[] {
  const ports = nodes.flatMap(({ node, rdma }) => (node === self ? [] : (rdma?.ports ?? [])));
  return [...new Set(ports.filter(({ used, link }) => used && link !== 'InfiniBand').map(({ gid }) => gid))];
}
