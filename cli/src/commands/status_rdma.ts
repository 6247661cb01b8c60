import type { NodeStatus, RdmaStatus } from '@hearth/common/generated/hearth/v1/control.ts';
import { formatBytes, formatCount } from '../format/quantity.ts';

/** One line a node about its RDMA reads; none where RDMA is off. */
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

function portText(port: RdmaStatus['ports'][number]): string {
  const { name, link, gid, bitsPerSecond, active, bytesReceived, bytesSent } = port;
  const clauses = [
    `${formatBytes(bytesReceived)} received`,
    `${formatBytes(bytesSent)} sent`,
    ...(port.p99Microseconds === 0n
      ? []
      : [
          `reads below ${milliseconds(port.medianMicroseconds)} ms, 99 % below ${milliseconds(port.p99Microseconds)} ms`,
        ]),
    ...(port.retries === 0n ? [] : [`${formatCount(port.retries, 'read')} retried elsewhere`]),
    ...(port.failures === 0n ? [] : [formatCount(port.failures, 'failure')]),
    ...(port.inMessages ? ['in messages, as the device has no memory windows'] : []),
    ...(active ? [] : ['down']),
  ];
  const speed = bitsPerSecond === 0n ? '' : `, ${bitsPerSecond / 1_000_000_000n} Gbit/s`;
  return `${name} (${link}, ${gid}${speed}): ${clauses.join(', ')}`;
}

const milliseconds = (microseconds: bigint) =>
  (Number(microseconds) / 1000).toLocaleString('en', { maximumSignificantDigits: 2 });
