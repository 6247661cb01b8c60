import assert from 'node:assert/strict';
import { decodeText, encodeText, prefixEnd } from './keys.ts';

describe('keys', () => {
  it('finds the first key after a prefix, also with bytes of 0xff', () => {
    const cases: [number[], number[] | undefined][] = [
      [[], undefined],
      [[0], [1]],
      [
        [0x61, 0x2f],
        [0x61, 0x30],
      ],
      [
        [0x61, 0xfe],
        [0x61, 0xff],
      ],
      [[0x61, 0xff], [0x62]],
      [[0x61, 0xff, 0xff], [0x62]],
      [[0xff], undefined],
      [[0xff, 0xff], undefined],
      [
        [0xff, 0x00, 0xff],
        [0xff, 0x01],
      ],
    ];
    for (const [prefix, expected] of cases) {
      const bytes = Buffer.from(prefix);
      assert.deepEqual(prefixEnd(bytes), expected && Buffer.from(expected));
      assert.deepEqual(bytes, Buffer.from(prefix), 'the prefix itself is not changed');
    }
  });

  it('recognizes bytes that are not text', () => {
    assert.equal(decodeText(Buffer.of(0xff)), undefined);
    assert.equal(decodeText(Buffer.of(0xed, 0xa0, 0x80)), undefined);
    for (const text of ['', '\ufeffa', '\u{10ffff}']) assert.equal(decodeText(encodeText(text)), text);
  });
});
