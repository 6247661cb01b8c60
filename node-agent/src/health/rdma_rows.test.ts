import assert from 'node:assert/strict';
import type { Statistics } from '@hearth/engine';
import { rdmaOff, rdmaReady } from '../testing/fake_statistics.ts';
import type { Seen } from './metric_row.ts';
import { rdmaRows } from './rdma_rows.ts';

const rdma = { port: 'mlx5_0/1', reason: '', requests: 2n, bytesReceived: 100n, bytesSent: 10n, failures: 1n };
const peers = [
  { node: 'b', rdma },
  { node: '', rdma },
] as Statistics['peers'];
const valuesOf = (seen: Pick<Statistics, 'rdma' | 'peers'>) =>
  rdmaRows.map(({ name, read }) => [name, read({ statistics: seen } as unknown as Seen)]);

describe('metrics of RDMA', () => {
  it('are those of the port and of each peer', () => {
    assert.deepEqual(valuesOf({ rdma: rdmaReady, peers }), [
      ['hearth_rdma_ready', [[['auto'], 1]]],
      ['hearth_rdma_port_active', [[['mlx5_0/1', 'RoCE v2', '10.0.0.1', 'true'], 1]]],
      ['hearth_rdma_peer_connected', [[['b'], 1]]],
      ['hearth_rdma_received_bytes_total', [[['b'], 100]]],
      ['hearth_rdma_sent_bytes_total', [[['b'], 10]]],
      ['hearth_rdma_requests_total', [[['b'], 2]]],
      ['hearth_rdma_failures_total', [[['b'], 1]]],
    ]);
  });

  it('are none where it is off', () => {
    for (const [name, values] of valuesOf({ rdma: rdmaOff, peers })) assert.deepEqual(values, [], String(name));
  });
});
