import assert from 'node:assert/strict';
import { until } from '@hearth/common/testing';
import type { RdmaPeerStatistics } from '@hearth/engine';
import { TestCluster } from '../testing/cluster.ts';
import { rdmaReady } from '../testing/fake_statistics.ts';

import { rdmaCapability, rdmaOf } from './rdma.ts';

const read = (changes: Partial<RdmaPeerStatistics>): RdmaPeerStatistics => ({
  port: 'mlx5_0/1',
  reason: '',
  requests: 2n,
  bytesReceived: 100n,
  bytesSent: 10n,
  failures: 0n,
  ...changes,
});

describe('reads over RDMA', () => {
  it('are published with the sums of their port and the reasons of peers that are read over TCP', async () => {
    const cluster = await TestCluster.start(['a', 'b'], []);
    try {
      const engine = cluster.engine('a');
      engine.rdma = rdmaReady;
      engine.peerRdma.set('b', read({}));
      engine.peerRdma.set('c', read({ failures: 1n }));
      engine.peerRdma.set('d', read({ port: '', reason: 'this agent uses no RDMA', requests: 0n, bytesReceived: 0n }));
      const seen = () => cluster.agent('b').statistics.of('a');
      await until(() => seen()?.rdma !== undefined);
      const { rdma, capabilities } = seen() ?? {};
      assert.deepEqual(rdma?.ports, [
        {
          name: 'mlx5_0/1',
          link: 'RoCE v2',
          gid: '10.0.0.1',
          mtuBytes: 4096,
          bitsPerSecond: 100_000_000_000n,
          active: true,
          used: true,
          bytesReceived: 200n,
          bytesSent: 30n,
          requests: 4n,
          failures: 1n,
        },
      ]);
      assert.deepEqual([rdma?.use, rdma?.reason, rdma?.peers, rdma?.peersOverTcp], ['auto', '', 2, 1]);
      assert.equal(rdma?.peersReason, 'd: this agent uses no RDMA');
      assert.deepEqual(
        capabilities?.find(({ name }) => name === 'rdma-reads'),
        { name: 'rdma-reads', ready: true, reason: 'mlx5_0/1 (RoCE v2, 10.0.0.1)' },
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
