import assert from 'node:assert/strict';
import { elapse, needsPrograms } from '@hearth/common/testing';
import { ScaledOperator } from './scaled_operator.ts';

const maxResidentMiB = 150;
const looks = 1_000;

describe('the operator with many simulated nodes and many Datasets, on a real API server', function () {
  this.timeout(600_000);
  let operator: ScaledOperator;

  before(async function () {
    operator = await needsPrograms(this, () => ScaledOperator.start());
  });
  after(() => operator?.stop());

  it('settles', async () => {
    const began = performance.now();
    await operator.settle();
    const seconds = ((performance.now() - began) / 1000).toFixed(0);
    const resident = operator.residentMiB();
    console.log(`      settled in ${seconds} s, ${resident.toFixed(0)} MiB`);
    assert.ok(resident < maxResidentMiB, `${resident} MiB`);
  });

  it('rewrites nothing after a restart', async () => {
    const [before, after] = await operator.restartedWhenQuiet();
    assert.deepEqual(after, before);
  });

  it('idles in little memory, and sleeps most of the time', async () => {
    let sleeping = 0;
    for (let look = 0; look < looks; look += 1) {
      await elapse(20, 'looks lie apart');
      // One that looks again and again runs or waits for a processor, however busy the machine is.
      if (operator.stat().state === 'S') sleeping += 1;
    }
    const resident = operator.residentMiB();
    console.log(`      asleep in ${sleeping} of ${looks} looks, ${resident.toFixed(0)} MiB`);
    assert.ok(resident < maxResidentMiB, `${resident} MiB`);
    assert.ok(sleeping > looks / 2, `asleep in ${sleeping} of ${looks} looks`);
  });
});
