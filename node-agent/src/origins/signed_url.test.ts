import assert from 'node:assert/strict';
import { signedUrlExpiry } from './signed_url.ts';

describe('signedUrlExpiry', () => {
  const noon = Date.UTC(2026, 10, 21, 12);
  const cases: [string, number | undefined][] = [
    ['X-Amz-Date=20261121T115500Z&X-Amz-Expires=300', noon],
    ['X-Goog-Date=20261121T110000Z&X-Goog-Expires=3600', noon],
    [`Expires=${noon / 1000}&Signature=x&Key-Pair-Id=y`, noon],
    ['se=2026-11-21T12%3A00%3A00Z&sig=x', noon],
    ['X-Amz-Date=nonsense&X-Amz-Expires=300', undefined],
    ['X-Amz-Date=20261121T115500Z', undefined],
    ['expires=never', undefined],
    ['', undefined],
  ];
  for (const [query, expected] of cases) {
    it(`reads "${query}"`, () => {
      assert.equal(signedUrlExpiry(new URL(`https://cdn.example.com/blob?${query}`)), expected);
    });
  }
});
