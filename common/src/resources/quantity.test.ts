import assert from 'node:assert/strict';
import { parseDuration, parseQuantity, parseShare } from './quantity.ts';

describe('quantities of custom resources', () => {
  it('parses sizes like Kubernetes', () => {
    assert.equal(parseQuantity('0'), 0n);
    assert.equal(parseQuantity('4096'), 4096n);
    assert.equal(parseQuantity('200Gi'), 200n << 30n);
    assert.equal(parseQuantity('1.5T'), 1_500_000_000_000n);
    assert.equal(parseQuantity('0.5Ki'), 512n);
    assert.equal(parseQuantity('1.999999999k'), 1999n);
    assert.equal(parseQuantity('7Ei'), 7n << 60n);
    for (const wrong of ['', 'Gi', '-1', '1 Gi', '1GiB', '1K', '1.', '.5', '1e3', '٣']) {
      assert.equal(parseQuantity(wrong), undefined, wrong);
    }
  });

  it('distinguishes shares from sizes', () => {
    assert.deepEqual(parseShare('70%'), { percent: 70 });
    assert.deepEqual(parseShare('100%'), { percent: 100 });
    assert.deepEqual(parseShare('1Gi'), { bytes: 1n << 30n });
    for (const wrong of ['101%', '%', '7.5%', '-1%', 'all']) assert.equal(parseShare(wrong), undefined, wrong);
  });

  it('parses durations', () => {
    assert.equal(parseDuration('30s'), 30_000);
    assert.equal(parseDuration('10m'), 600_000);
    assert.equal(parseDuration('24h'), 86_400_000);
    for (const wrong of ['', '10', 'm', '1d', '1h30m', '-1s', '1.5h'])
      assert.equal(parseDuration(wrong), undefined, wrong);
  });
});
