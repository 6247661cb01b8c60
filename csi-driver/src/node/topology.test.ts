import assert from 'node:assert/strict';
import { silentLogger } from '@hearth/common';
import { Topology } from './topology.ts';

describe('Topology', () => {
  let clusters: string[];
  let fails: boolean;
  let registrations: number;
  let topology: Topology;
  beforeEach(async () => {
    clusters = ['models'];
    fails = false;
    registrations = 0;
    topology = new Topology({
      clusters: async () => clusters,
      renew: async () => {
        if (fails) throw new Error('no socket');
        registrations++;
      },
      everyMs: 1_000_000,
      logger: silentLogger,
    });
    await topology.check();
    topology.start();
  });
  afterEach(async () => await topology.close());

  const registrationsAfter = async (...present: string[]) => {
    clusters = present;
    await topology.check();
    return registrations;
  };

  it('registers again for each StorageCluster that comes, and for none that goes', async () => {
    assert.equal(await registrationsAfter('models'), 0);
    assert.equal(await registrationsAfter('models', 'other'), 1);
    assert.equal(await registrationsAfter('models', 'other'), 1);
    assert.equal(await registrationsAfter('models'), 1);
    assert.equal(await registrationsAfter('other'), 2);
  });

  it('tries again what failed', async () => {
    fails = true;
    assert.equal(await registrationsAfter('models', 'other'), 0);
    fails = false;
    assert.equal(await registrationsAfter('models', 'other'), 1);
  });
});
