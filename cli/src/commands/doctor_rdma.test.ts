import assert from 'node:assert/strict';
import { RdmaStatus } from '@hearth/common/generated/hearth/v1/control.ts';
import { sampleNode } from '../testing/samples.ts';
import { agentRdmaProbe, peerAddresses } from './doctor_rdma.ts';

const port = { name: 'mlx5_0/1', link: 'RoCE v2', gid: '10.0.0.7', mtuBytes: 4096, active: true, used: true };
const status = (changes: Partial<RdmaStatus>) =>
  sampleNode({ rdma: RdmaStatus.fromPartial({ use: 'auto', ports: [port], peers: 3, ...changes }) });

describe('rows of hearth doctor rdma about agents', () => {
  it('name the port that carries reads', () => {
    const { status: state, detail, advice } = agentRdmaProbe(status({}));
    assert.equal(state, 'ok');
    assert.equal(detail, 'mlx5_0/1 (RoCE v2, 10.0.0.7, packets of 4096 bytes), with 3 nodes');
    assert.equal(advice, '');
  });

  it('name the nodes read over TCP, and how to find the reason', () => {
    const { status: state, detail, advice } = agentRdmaProbe(status({ peersOverTcp: 1, peersReason: 'n2: no answer' }));
    assert.equal(state, 'degraded');
    assert.match(detail, /; over TCP with 1 node: n2: no answer$/);
    assert.match(advice, /hearth bench rdma --listen/);
  });

  it('name the reason for not using RDMA', () => {
    assert.deepEqual(agentRdmaProbe(status({ reason: 'no port' })).detail, 'no port');
    assert.match(agentRdmaProbe(sampleNode({})).advice, /engine\.rdma to auto/);
  });

  it('request routes to the ports of other nodes, on Ethernet', () => {
    const nodes = [
      sampleNode({ node: 'self', rdma: RdmaStatus.fromPartial({ ports: [port] }) }),
      sampleNode({ node: 'n2', rdma: RdmaStatus.fromPartial({ ports: [{ ...port, gid: '10.0.0.8' }] }) }),
      sampleNode({ node: 'n3', rdma: RdmaStatus.fromPartial({ ports: [{ ...port, gid: '10.0.0.9', used: false }] }) }),
      sampleNode({ node: 'n4', rdma: RdmaStatus.fromPartial({ ports: [{ ...port, link: 'InfiniBand' }] }) }),
      sampleNode({ node: 'n5' }),
    ];
    assert.deepEqual(peerAddresses(nodes, 'self'), ['10.0.0.8']);
  });
});
