import type { RdmaPeerStatistics } from '@hearth/engine';
import { type RailTotals, railsByPort } from '../statistics/index.ts';
import { type HistogramRow, type MetricRow, row, type ValueRow } from './metric_row.ts';

/** Rows for each agent that this one has connected to, unless RDMA is off. */
const ofPeers =
  (read: (rdma: RdmaPeerStatistics) => bigint | number): ValueRow['read'] =>
  ({ statistics: { rdma, peers } }) =>
    rdma.use === 'off'
      ? []
      : peers.filter(({ node }) => node !== '').map((peer) => [[peer.node], Number(read(peer.rdma))]);

/** Rows for each port that reads have used or were meant to use, over all peers. */
const ofPorts =
  (read: (rail: RailTotals) => bigint | number): ValueRow['read'] =>
  ({ statistics: { peers } }) =>
    [...railsByPort(peers)].map(([port, rail]) => [[port], Number(read(rail))]);

/** Powers of two microseconds, as counted by the engine: the last bucket has no bound. */
const latencyBounds = Array.from({ length: 23 }, (_, bucket) => 2 ** bucket / 1e6);

const readSeconds: HistogramRow = {
  name: 'hearth_rdma_read_seconds',
  help: 'Duration in seconds of successful reads from other agents over a port.',
  kind: 'histogram',
  labels: ['port'],
  bounds: latencyBounds,
  read: ({ statistics: { peers } }) =>
    [...railsByPort(peers)].map(([port, { latency }]) => [[port], { counts: latency.counts, sum: latency.seconds }]),
};

/** Metrics of reads over RDMA. */
export const rdmaRows: readonly MetricRow[] = [
  row(
    'gauge',
    'rdma_ready',
    '1 while reads from other agents can go over RDMA, else 0; absent where RDMA is off. The label is the setting.',
    ({ statistics: { rdma } }) => (rdma.use === 'off' ? [] : [[[rdma.use], rdma.reason === '' ? 1 : 0]]),
    ['use'],
  ),
  row(
    'gauge',
    'rdma_port_active',
    '1 while the port of the RDMA device is active; the labels are its link type, its address, and its use by reads.',
    ({ statistics: { rdma } }) =>
      rdma.ports.map(({ name, link, gid, used, active }) => [[name, link, gid, String(used)], active ? 1 : 0]),
    ['port', 'link', 'gid', 'used'],
  ),
  row(
    'gauge',
    'rdma_peer_connected',
    '1 while reads from the peer go over RDMA, 0 while they go over TCP.',
    ofPeers(({ port }) => (port === '' ? 0 : 1)),
    ['peer'],
  ),
  row(
    'counter',
    'rdma_received_bytes_total',
    'Bytes received from the peer by RDMA, included in hearth_peer_received_bytes_total.',
    ofPeers(({ bytesReceived }) => bytesReceived),
    ['peer'],
  ),
  row(
    'counter',
    'rdma_sent_bytes_total',
    'Bytes written to the peer by RDMA, included in hearth_peer_sent_bytes_total.',
    ofPeers(({ bytesSent }) => bytesSent),
    ['peer'],
  ),
  row(
    'counter',
    'rdma_requests_total',
    'Reads over RDMA from the peer and by the peer.',
    ofPeers(({ requests }) => requests),
    ['peer'],
  ),
  row(
    'counter',
    'rdma_failures_total',
    'Failures of the RDMA connection to the peer; reads in flight went over TCP.',
    ofPeers(({ failures }) => failures),
    ['peer'],
  ),
  row(
    'counter',
    'rdma_port_received_bytes_total',
    'Bytes received over a port from all peers.',
    ofPorts(({ bytesReceived }) => bytesReceived),
    ['port'],
  ),
  row(
    'counter',
    'rdma_port_sent_bytes_total',
    'Bytes sent over a port to all peers.',
    ofPorts(({ bytesSent }) => bytesSent),
    ['port'],
  ),
  row(
    'counter',
    'rdma_port_in_place_bytes_total',
    'Bytes sent over a port that the device read from the memory for chunks, included in hearth_rdma_port_sent_bytes_total.',
    ofPorts(({ bytesInPlace }) => bytesInPlace),
    ['port'],
  ),
  row(
    'counter',
    'rdma_port_copied_bytes_total',
    'Bytes sent over a port that the agent copied first, included in hearth_rdma_port_sent_bytes_total.',
    ofPorts(({ bytesCopied }) => bytesCopied),
    ['port'],
  ),
  row(
    'counter',
    'rdma_port_requests_total',
    'Reads over a port, by this agent and by its peers.',
    ofPorts(({ requests, answers }) => requests + answers),
    ['port'],
  ),
  row(
    'counter',
    'rdma_port_retries_total',
    'Reads that failed on a port and were retried on another port or over TCP.',
    ofPorts(({ retries }) => retries),
    ['port'],
  ),
  row(
    'counter',
    'rdma_port_pauses_total',
    'Number of times that a port was paused for reads from a peer until a probe succeeded.',
    ofPorts(({ pauses }) => pauses),
    ['port'],
  ),
  readSeconds,
];
