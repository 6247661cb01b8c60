import assert from 'node:assert/strict';
import {
  formatAmount,
  formatDuration,
  formatSize,
  parseAmount,
  parseDuration,
  parseSize,
  resolveAmount,
} from './quantity.ts';

describe('quantities', () => {
  const sizes: [unknown, bigint | undefined][] = [
    ['200GiB', 200n << 30n],
    ['1.5 TiB', 3n << 39n],
    ['1GB', 1_000_000_000n],
    ['4096', 4096n],
    [4096, 4096n],
    ['0', 0n],
    ['8EiB', undefined],
    ['9223372036854775807', (1n << 63n) - 1n],
    ['9223372036854775808', undefined],
    ['-1', undefined],
    [-1, undefined],
    [1.5, undefined],
    ['1,5GiB', undefined],
    ['', undefined],
    [null, undefined],
  ];
  for (const [text, bytes] of sizes) {
    it(`reads the size ${JSON.stringify(text)}`, () => assert.equal(parseSize(text), bytes));
  }

  it('resolves shares exactly', () => {
    const share = parseAmount('12.34%');
    assert.deepEqual(share, { basisPoints: 1234 });
    assert.equal(share && resolveAmount(share, 10_000n), 1234n);
    assert.equal(parseAmount('100.01%'), undefined);
    assert.equal(parseAmount('12.345%'), undefined);
  });

  it('formats sizes that it can read again', () => {
    for (const bytes of [0n, 1n, 1024n, 4097n, 3n << 30n, 1n << 50n]) assert.equal(parseSize(formatSize(bytes)), bytes);
    assert.equal(formatAmount({ basisPoints: 1250 }), '12.5%');
    for (const time of [0, 1, 1500, 60_000, 86_400_000]) assert.equal(parseDuration(formatDuration(time)), time);
    assert.equal(parseDuration('10'), undefined);
    assert.equal(parseDuration(10), undefined);
  });
});
