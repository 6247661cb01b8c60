import assert from 'node:assert/strict';
import { SpeedMeter } from './speed.ts';

describe('speed', () => {
  it('counts bytes over the window', () => {
    const meter = new SpeedMeter();
    assert.equal(meter.note(100n, 0), 0n);
    assert.equal(meter.note(1100n, 1000), 1000n);
    for (let second = 2; second <= 20; second++) meter.note(BigInt(100 + second * 1000), second * 1000);
    assert.equal(meter.note(20_100n, 24_000), 200n);
    assert.equal(meter.note(20_100n, 26_000), 0n);
  });

  it('is zero when the count decreases, as after a bad chunk', () => {
    const meter = new SpeedMeter();
    meter.note(100n, 0);
    assert.equal(meter.note(50n, 1000), 0n);
  });
});
