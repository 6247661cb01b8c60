import assert from 'node:assert/strict';
import { GateCluster } from './testing/gate_cluster.ts';
import { groups, HundredPods } from './testing/hundred_pods.ts';

describe('gates of a hundred pods whose bytes are there', () => {
  let measured: HundredPods;
  before(async function () {
    measured = await HundredPods.start(await GateCluster.start(this));
  });
  after(async () => measured?.stop());

  for (const [what, make] of Object.entries(groups)) {
    it(`open, ${what}`, async () => {
      const times = await measured.measure(make);
      assert.equal(times.length, 100);
      assert.ok(times.every((ms) => ms >= 0));
    });
  }
});
