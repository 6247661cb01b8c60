import assert from 'node:assert/strict';
import { chooseReplicas } from './choice.ts';

const candidate = (node: string, residentBytes: bigint, availableBytes: bigint) => ({
  node,
  residentBytes,
  availableBytes,
});

describe('choice of replicas', () => {
  it('prefers resident bytes, then room, then the name', () => {
    const candidates = [
      candidate('d', 0n, 100n),
      candidate('a', 0n, 500n),
      candidate('b', 60n, 50n),
      candidate('c', 0n, 500n),
    ];
    assert.deepEqual(chooseReplicas(candidates, 1, 100n), ['b']);
    assert.deepEqual(chooseReplicas(candidates, 4, 100n), ['b', 'a', 'c', 'd']);
  });

  it('skips agents without room, counting their resident bytes', () => {
    const candidates = [candidate('a', 90n, 9n), candidate('b', 0n, 100n)];
    assert.deepEqual(chooseReplicas(candidates, 1, 100n), ['b']);
    assert.throws(() => chooseReplicas(candidates, 2, 100n), {
      code: 'OutOfSpace',
      message: /only 1 of 2 agents have room/,
    });
  });

  it('reports the number of ready agents', () => {
    assert.throws(() => chooseReplicas([], 1, 1n), { code: 'Unavailable', message: /only 0 agents are ready/ });
  });
});
