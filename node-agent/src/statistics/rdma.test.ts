import assert from 'node:assert/strict';
import { until } from '@hearth/common/testing';
import type { RdmaPeerStatistics, RdmaRailStatistics } from '@hearth/engine';
import { TestCluster } from '../testing/cluster.ts';
import { rdmaReady } from '../testing/fake_statistics.ts';

import { rdmaCapability, rdmaOf } from './rdma.ts';

const rail = (changes: Partial<RdmaRailStatistics>): RdmaRailStatistics => ({
  port: 'mlx5_0/1',
  usable: true,
  reason: '',
  requests: 1n,
  bytesReceived: 100n,
  answers: 1n,
  bytesSent: 10n,
  bytesInPlace: 10n,
  bytesCopied: 0n,
  retries: 0n,
  pauses: 0n,
  failures: 0n,
  idleCloses: 0n,
  bytesPerSecond: 0,
  latency: { counts: [0, 0, 0, 1, 0], seconds: 0.000005 },
  ...changes,
});

const read = (changes: Partial<RdmaPeerStatistics>): RdmaPeerStatistics => ({
  port: 'mlx5_0/1',
  reason: '',
  requests: 2n,
  bytesReceived: 100n,
  bytesSent: 10n,
  failures: 0n,
  rails: [],
  ...changes,
});

describe('reads over RDMA', () => {
  it('are published with the sums of their port and the reasons of peers that are read over TCP', async () => {
    const cluster = await TestCluster.start(['a', 'b'], []);
    try {
      const engine = cluster.engine('a');
      const [port] = rdmaReady.ports;
      assert.ok(port);
      engine.rdma = { ...rdmaReady, ports: [port, { ...port, name: 'mlx5_1/1', hasWindows: false }] };
      engine.peerRdma.set('b', read({ rails: [rail({}), rail({ port: 'mlx5_1/1', bytesReceived: 7n })] }));
      const slow = { counts: [0, 0, 0, 0, 2], seconds: 0.00002 };
      engine.peerRdma.set('c', read({ rails: [rail({ failures: 1n, retries: 2n, pauses: 3n, latency: slow })] }));
      engine.peerRdma.set('d', read({ port: '', reason: 'this agent uses no RDMA', requests: 0n, bytesReceived: 0n }));
      const seen = () => cluster.agent('a').statistics.current;
      await until(() => seen()?.rdma !== undefined);
      const { rdma, capabilities } = seen() ?? {};
      assert.deepEqual(rdma?.ports.slice(0, 1), [
        {
          name: 'mlx5_0/1',
          link: 'RoCE v2',
          gid: '10.0.0.1',
          mtuBytes: 4096,
          bitsPerSecond: 100_000_000_000n,
          active: true,
          used: true,
          bytesReceived: 200n,
          bytesSent: 20n,
          requests: 4n,
          failures: 1n,
          retries: 2n,
          pauses: 3n,
          medianMicroseconds: 16n,
          p99Microseconds: 16n,
          inMessages: false,
        },
      ]);
      const second = rdma?.ports[1];
      assert.deepEqual([second?.bytesReceived, second?.medianMicroseconds, second?.inMessages], [7n, 8n, true]);
      assert.deepEqual([rdma?.use, rdma?.reason, rdma?.peers, rdma?.peersOverTcp], ['auto', '', 2, 1]);
      assert.equal(rdma?.peersReason, 'd: this agent uses no RDMA');
      assert.deepEqual(
        capabilities?.find(({ name }) => name === 'rdma-reads'),
        { name: 'rdma-reads', ready: true, reason: 'mlx5_0/1 (RoCE v2, 10.0.0.1); mlx5_1/1 (RoCE v2, 10.0.0.1)' },
      );
    } finally {
      await cluster.close();
    }
  });

  it('have the reason why there are none', () => {
    const reason = 'the device may not pin 512 bytes; raise the limit of locked memory (RLIMIT_MEMLOCK, CAP_IPC_LOCK)';
    const rdma = rdmaOf({ rdma: { ...rdmaReady, use: 'required', reason }, peers: [] });
    assert.deepEqual(rdmaCapability(rdma), [{ name: 'rdma-reads', ready: false, reason }]);
    assert.equal(rdma?.use, 'required');
  });

  it('are not mentioned where they are off', () => {
    const rdma = rdmaOf({ rdma: { use: 'off', reason: '', ports: [], refused: [] }, peers: [] });
    assert.equal(rdma, undefined);
    assert.deepEqual(rdmaCapability(rdma), []);
  });
});
