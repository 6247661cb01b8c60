import assert from 'node:assert/strict';
import { makeToken, tokenId } from './token.ts';

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

  it('name the nodes of their agents', () => {
    const ofPod = { ...capability, node: '', pod: { namespace: 'team', uid: 'reader-0' }, nodes: ['node', 'other'] };
    const text =
      'hearth-token-1.AQQAdGVzdAAAAAAAAAAAAEABAAAAAgADAG9uZQMAdHdvAQAGAAQAdGVhbQIACgAIAHJlYWRlci0wAwAPAAIABABub2RlBQBvdGhlcg.X9EH8MiqZiSHHpf2gpxCvfCK6QZkx4cAR_LoguLYQrE';
    assert.equal(makeToken(ofPod, secret), text);
  });

  // native/wire/capability_test.cc expects the same id.
  it('have an id that does not depend on the secret, and no other text has one', () => {
    const token = makeToken(capability, secret);
    assert.equal(tokenId(`${token}\n`), '27ffa7c3af7027d21953af95b41a0886dad568d9ba62e7f1e635308f009bba4c');
    assert.equal(tokenId(makeToken(capability, Buffer.from('another secret'))), tokenId(token));
    assert.notEqual(tokenId(makeToken({ ...capability, expiresAt: 1 }, secret)), tokenId(token));
    for (const bad of ['', 'hearth-token-1.', 'hearth-token-1.AQ', 'hearth-token-2.AQ.AQ']) {
      assert.throws(() => tokenId(bad), { code: 'InvalidArgument' });
    }
  });

  it('are refused when too long', () => {
    const datasets = Array.from({ length: 200 }, (_, index) => `a-dataset-with-a-long-name-${index}`);
    assert.throws(() => makeToken({ ...capability, datasets }, secret), { code: 'InvalidArgument' });
  });
});
