import assert from 'node:assert/strict';
import { makeToken } from './token.ts';

describe('tokens of clients', () => {
  const secret = Buffer.from('a secret of the cluster');
  const capability = {
    cluster: 'test',
    node: 'node',
    expiresAt: 2 ** 62,
    rights: ['read'] as const,
    datasets: ['one', 'two'],
  };

  // native/wire/capability_test.cc expects the same text.
  it('have the format that agents accept', () => {
    const text =
      'hearth-token-1.AQQAdGVzdAQAbm9kZQAAAAAAAABAAQAAAAIAAwBvbmUDAHR3bw.V53Z8OZnhBFDjHYkpPo4c1CJ6yPwrvt8untEHDCPfUc';
    assert.equal(makeToken(capability, secret), text);
  });

  it('name their pod', () => {
    const text =
      'hearth-token-1.AQQAdGVzdAQAbm9kZQAAAAAAAABAAQAAAAIAAwBvbmUDAHR3bwEABgAEAHRlYW0CAAoACAByZWFkZXItMA.U-QpKw8NbhnysXzsfKUamTGK1ygIc937qdhSOjNK92I';
    assert.equal(makeToken({ ...capability, pod: { namespace: 'team', uid: 'reader-0' } }, secret), text);
  });

  it('are refused when too long', () => {
    const datasets = Array.from({ length: 200 }, (_, index) => `a-dataset-with-a-long-name-${index}`);
    assert.throws(() => makeToken({ ...capability, datasets }, secret), { code: 'InvalidArgument' });
  });
});
