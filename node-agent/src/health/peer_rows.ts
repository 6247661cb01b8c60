import { type MetricRow, ofEngine, row } from './metric_row.ts';

/** Metrics of bytes between agents. */
export const peerRows: readonly MetricRow[] = [
  row(
    'counter',
    'peer_received_bytes_total',
    'Bytes of files received from other agents.',
    ofEngine((s) => s.peerBytesReceived),
  ),
  row(
    'counter',
    'peer_sent_bytes_total',
    'Bytes of files sent to other agents.',
    ofEngine((s) => s.peerBytesSent),
  ),
  row(
    'counter',
    'peer_requests_total',
    'Requests to other agents.',
    ofEngine((s) => s.peerRequests),
  ),
  row(
    'gauge',
    'peer_connected',
    '1 while the agent is connected to the peer.',
    ({ statistics }) => statistics.peers.map((peer) => [[peer.node], peer.connected ? 1 : 0]),
    ['peer'],
  ),
  row(
    'gauge',
    'peer_wire_info',
    'Always 1; the labels are the version of the wire protocol agreed with the peer, and the features that the peer lacks.',
    ({ statistics }) =>
      statistics.peers
        .filter((peer) => peer.wireVersion !== 0)
        .map((peer) => [[peer.node, String(peer.wireVersion), peer.featuresOff], 1]),
    ['peer', 'version', 'features_off'],
  ),
  row(
    'counter',
    'peer_paused_connections_total',
    'Number of times that a connection to the peer delivered nothing for 200 ms and was paused.',
    ({ statistics }) => statistics.peers.map((peer) => [[peer.node], Number(peer.paused)]),
    ['peer'],
  ),
  row(
    'counter',
    'peer_hedged_slices_total',
    'Parts of reads that were repeated on another connection, because the first one delivered nothing.',
    ({ statistics }) => statistics.peers.map((peer) => [[peer.node], Number(peer.hedged)]),
    ['peer'],
  ),
];
