import assert from 'node:assert/strict';
import { unusedLimits } from '../testing/fake_statistics.ts';
import { limitsCapability } from './limits_capability.ts';

const none = { total: 0n, warm: 0n };

describe('limits of a node', () => {
  it('are described with the rest for warm work, each once', () => {
    const limits = {
      origin: { total: 1n << 30n, warm: 100n << 20n },
      peers: { total: 0n, warm: 50n << 20n },
      disk: { total: 2n << 30n, warm: 0n },
    };
    assert.deepEqual(limitsCapability(unusedLimits(limits)), [
      {
        name: 'limits',
        ready: true,
        reason: 'origins: 1GiB/s, of which warm work 100MiB/s; other nodes: warm work 50MiB/s; the disks: 2GiB/s',
      },
    ]);
  });

  it('have no row without limits', () => {
    assert.deepEqual(limitsCapability(unusedLimits({ origin: none, peers: none, disk: none })), []);
  });
});
