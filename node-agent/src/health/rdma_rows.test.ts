import assert from 'node:assert/strict';
import type { Statistics } from '@hearth/engine';
import { Registry } from '@prometheus-io/client';
import { rdmaOff, rdmaReady } from '../testing/fake_statistics.ts';
import { CountedHistogram } from './counted_histogram.ts';
import type { Seen } from './metric_row.ts';
import { rdmaRows } from './rdma_rows.ts';

const rail = {
  port: 'mlx5_0/1',
  usable: true,
  reason: '',
  requests: 1n,
  bytesReceived: 100n,
  answers: 1n,
  bytesSent: 10n,
  bytesInPlace: 7n,
  bytesCopied: 3n,
  retries: 3n,
  pauses: 4n,
  failures: 1n,
  idleCloses: 0n,
  bytesPerSecond: 5,
  latency: { counts: [0, 1, ...Array<number>(22).fill(0)], seconds: 1.5e-6 },
};
const rdma = {
  port: 'mlx5_0/1',
  reason: '',
  requests: 2n,
  bytesReceived: 100n,
  bytesSent: 10n,
  failures: 1n,
  rails: [rail],
};
const peers = [
  { node: 'b', rdma },
  { node: '', rdma: { ...rdma, rails: [] } },
  { node: 'c', rdma },
] as Statistics['peers'];
const valuesOf = (seen: Pick<Statistics, 'rdma' | 'peers'>) =>
  rdmaRows.map(({ name, read }) => [name, read({ statistics: seen } as unknown as Seen)]);

describe('metrics of RDMA', () => {
  it('cover the port and each peer', () => {
    assert.deepEqual(valuesOf({ rdma: rdmaReady, peers }), [
      ['hearth_rdma_ready', [[['auto'], 1]]],
      ['hearth_rdma_port_active', [[['mlx5_0/1', 'RoCE v2', '10.0.0.1', 'true'], 1]]],
      [
        'hearth_rdma_peer_connected',
        [
          [['b'], 1],
          [['c'], 1],
        ],
      ],
      [
        'hearth_rdma_received_bytes_total',
        [
          [['b'], 100],
          [['c'], 100],
        ],
      ],
      [
        'hearth_rdma_sent_bytes_total',
        [
          [['b'], 10],
          [['c'], 10],
        ],
      ],
      [
        'hearth_rdma_requests_total',
        [
          [['b'], 2],
          [['c'], 2],
        ],
      ],
      [
        'hearth_rdma_failures_total',
        [
          [['b'], 1],
          [['c'], 1],
        ],
      ],
      ['hearth_rdma_port_received_bytes_total', [[['mlx5_0/1'], 200]]],
      ['hearth_rdma_port_sent_bytes_total', [[['mlx5_0/1'], 20]]],
      ['hearth_rdma_port_in_place_bytes_total', [[['mlx5_0/1'], 14]]],
      ['hearth_rdma_port_copied_bytes_total', [[['mlx5_0/1'], 6]]],
      ['hearth_rdma_port_requests_total', [[['mlx5_0/1'], 4]]],
      ['hearth_rdma_port_retries_total', [[['mlx5_0/1'], 6]]],
      ['hearth_rdma_port_pauses_total', [[['mlx5_0/1'], 8]]],
      ['hearth_rdma_read_seconds', [[['mlx5_0/1'], { counts: [0, 2, ...Array(22).fill(0)], sum: 3e-6 }]]],
    ]);
  });

  it('have cumulative buckets', async () => {
    const registry = new Registry();
    const seen = { statistics: { rdma: rdmaReady, peers } } as unknown as Seen;
    for (const row of rdmaRows) if (row.kind === 'histogram') new CountedHistogram(row, seen, registry);
    const text = await registry.metrics();
    assert.match(text, /^# TYPE hearth_rdma_read_seconds histogram$/m);
    for (const line of [
      'hearth_rdma_read_seconds_bucket{port="mlx5_0/1",le="0.000001"} 0',
      'hearth_rdma_read_seconds_bucket{port="mlx5_0/1",le="0.000002"} 2',
      'hearth_rdma_read_seconds_bucket{port="mlx5_0/1",le="4.194304"} 2',
      'hearth_rdma_read_seconds_bucket{port="mlx5_0/1",le="+Inf"} 2',
      'hearth_rdma_read_seconds_sum{port="mlx5_0/1"} 0.000003',
      'hearth_rdma_read_seconds_count{port="mlx5_0/1"} 2',
    ])
      assert.ok(text.split('\n').includes(line), `${line} in ${text}`);
  });

  it('are absent where RDMA is off', () => {
    const withoutRails = peers.map((peer) => ({ ...peer, rdma: { ...peer.rdma, rails: [] } }));
    for (const [name, values] of valuesOf({ rdma: rdmaOff, peers: withoutRails }))
      assert.deepEqual(values, [], String(name));
  });
});
