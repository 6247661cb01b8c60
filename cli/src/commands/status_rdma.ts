import type { NodeStatus, RdmaStatus } from '@hearth/common/generated/hearth/v1/control.ts';
import { formatBytes, formatCount } from '../format/quantity.ts';

/** How nodes read from each other over RDMA, a line each; none where it is off. */
export function rdmaLines(nodes: readonly NodeStatus[]): string[] {
  const lines = nodes.flatMap(({ node, rdma }) =>
    rdma === undefined ? [] : [`  ${node}: ${rdma.reason === '' ? inUse(rdma) : `not used: ${rdma.reason}`}`],
  );
  return lines.length === 0 ? [] : ['Reads from peers over RDMA:', ...lines];
}

function inUse({ ports, refused, peers, peersOverTcp, peersReason }: RdmaStatus): string {
  const others = refused.map(({ port, reason }) => `${port === '' ? 'others' : port} not used: ${reason}`);
  const overTcp = peersOverTcp === 0 ? [] : [`over TCP with ${formatCount(peersOverTcp, 'node')} (${peersReason})`];
  return [
    ...ports.filter(({ used }) => used).map(portText),
    `with ${formatCount(peers, 'node')}`,
    ...overTcp,
    ...others,
  ].join('; ');
}

function portText({ name, link, gid, bitsPerSecond, bytesReceived, bytesSent, failures }: RdmaStatus['ports'][number]) {
  const speed = bitsPerSecond === 0n ? '' : `, ${bitsPerSecond / 1_000_000_000n} Gbit/s`;
  const failed = failures === 0n ? '' : `, ${formatCount(failures, 'failure')}`;
  return `${name} (${link}, ${gid}${speed}): ${formatBytes(bytesReceived)} received, ${formatBytes(bytesSent)} sent${failed}`;
}
