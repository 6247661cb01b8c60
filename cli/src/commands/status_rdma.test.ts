import assert from 'node:assert/strict';
import { RdmaStatus } from '@hearth/common/generated/hearth/v1/control.ts';
import { sampleNode } from '../testing/samples.ts';
import { rdmaLines } from './status_rdma.ts';

const port = {
  name: 'mlx5_0/1',
  link: 'RoCE v2',
  gid: '10.0.0.1',
  mtuBytes: 4096,
  bitsPerSecond: 100_000_000_000n,
  active: true,
  used: true,
  bytesReceived: 3n << 30n,
  bytesSent: 1n << 30n,
  requests: 1024n,
  failures: 1n,
  retries: 2n,
  pauses: 1n,
  medianMicroseconds: 512n,
  p99Microseconds: 16_384n,
  inMessages: false,
};

describe('RDMA in the status', () => {
  it('shows the port that carries bytes, the number of nodes, and reasons for others', () => {
    const rdma = RdmaStatus.fromPartial({
      use: 'auto',
      ports: [port, { ...port, name: 'mlx5_1/1', used: false }],
      refused: [{ port: 'mlx5_2/1', reason: 'the port is not active' }],
      peers: 2,
      peersOverTcp: 1,
      peersReason: 'd: this agent uses no RDMA',
    });
    assert.deepEqual(rdmaLines([sampleNode(), sampleNode({ node: 'c', rdma })]), [
      'Reads from peers over RDMA:',
      '  c: mlx5_0/1 (RoCE v2, 10.0.0.1, 100 Gbit/s): 3.0 GiB received, 1.0 GiB sent, ' +
        'reads below 0.51 ms, 99 % below 16 ms, 2 reads retried elsewhere, 1 failure; with 2 nodes; ' +
        'over TCP with 1 node (d: this agent uses no RDMA); mlx5_2/1 not used: the port is not active',
    ]);
  });

  it('reports a port that is down or has no memory windows', () => {
    const quiet = { ...port, failures: 0n, retries: 0n, p99Microseconds: 0n };
    const ports = [
      { ...quiet, active: false },
      { ...quiet, name: 'mlx5_1/1', inMessages: true },
    ];
    const [, line] = rdmaLines([sampleNode({ rdma: RdmaStatus.fromPartial({ use: 'auto', ports, peers: 1 }) })]);
    assert.equal(
      line,
      '  a: mlx5_0/1 (RoCE v2, 10.0.0.1, 100 Gbit/s): 3.0 GiB received, 1.0 GiB sent, down; ' +
        'mlx5_1/1 (RoCE v2, 10.0.0.1, 100 Gbit/s): 3.0 GiB received, 1.0 GiB sent, in messages, as the device has no ' +
        'memory windows; with 1 node',
    );
  });

  it('reports why RDMA is not used', () => {
    const rdma = RdmaStatus.fromPartial({ use: 'auto', reason: 'this machine shows no RDMA device' });
    assert.deepEqual(rdmaLines([sampleNode({ rdma })]), [
      'Reads from peers over RDMA:',
      '  a: not used: this machine shows no RDMA device',
    ]);
  });

  it('prints nothing where RDMA is off', () => {
    assert.deepEqual(rdmaLines([sampleNode()]), []);
  });
});
