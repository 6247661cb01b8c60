import assert from 'node:assert/strict';
import { digestKey, directoryKey, httpEtagKey, httpModifiedKey, hubKey, s3EtagKey } from './content_key.ts';

const digest = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855';

describe('content keys', () => {
  // Caches find files by these keys, so a change would lose every cache. Another program computed the values.
  const golden: [string, string, string][] = [
    [
      'digest',
      digestKey('https://h/x', digest, 5n),
      'fb00f7ff978143cb8c54fca16768302a33a9c3113f41f3398231527dcbe3e3d4',
    ],
    [
      'S3 ETag',
      s3EtagKey('https://s3.amazonaws.com/b/k', '"e"'),
      'f646d026ad5d5193627a87c34e13a0ec5926c3e7530a7e9f599463df50bf736e',
    ],
    [
      'HTTP ETag',
      httpEtagKey('https://h/x', '"e"'),
      'cbd6ab473d4aced8c3065682cfd6d93f0f0610f6a8562795769fcbeb9ce4def2',
    ],
    [
      'HTTP date',
      httpModifiedKey('https://h/x', 'Fri, 20 Nov 2026 10:00:00 GMT', 2n ** 64n - 1n),
      'd8a6d3fbaeb421aa9e7b0fab21715901294adf45cfe5ae0ae8ed60611b800beb',
    ],
    [
      'hub',
      hubKey('https://huggingface.co/o/m/resolve/c/p', 'abc'),
      '91bb3a760085293868bb3924f6bf688b76bbcf7c2bbb792e7a221bba62f89934',
    ],
    [
      'directory',
      directoryKey('/m/ä', 1700000000000000001n, 2n, 3n),
      '5d4a662faf76bc9c0d99830b0249279dc0ae6c6f798958a5a97f0d293bdaf190',
    ],
  ];

  for (const [name, key, expected] of golden) {
    it(`of ${name} never change`, () => {
      assert.equal(key, expected);
    });
  }

  it('of equal digests ignore letter case, and differ by size and authority', () => {
    assert.equal(digestKey('https://h', digest.toUpperCase(), 5n), digestKey('https://h', digest, 5n));
    assert.notEqual(digestKey('https://h', digest, 6n), digestKey('https://h', digest, 5n));
    assert.notEqual(digestKey('https://evil', digest, 5n), digestKey('https://h', digest, 5n));
  });
});
