import assert from 'node:assert/strict';
import { HearthError } from '@hearth/common';
import { FakeOrigin, fileRow } from '../testing/fake_origin.ts';
import { ReadingProof } from './reading_proof.ts';

const signal = () => AbortSignal.timeout(300_000);

describe('reading proof', () => {
  const rowsOf = (...paths: string[]) => paths.map((path) => fileRow(path, 1n));
  const denied = new HearthError('Unauthenticated', 'no');

  it('reads a byte of the first and the last file of each part', async () => {
    const origin = new FakeOrigin([]);
    const proof = new ReadingProof(origin);
    proof.note([...rowsOf('README'), fileRow('a/0', 0n), { path: 'a/f', kind: 'directory', size: 0n }]);
    proof.note(rowsOf('a/1', 'a/2', 'a/3', 'b/1'));
    proof.note(rowsOf('c/1', 'c/2', 'README.2'));
    await proof.read(signal());
    assert.deepEqual(origin.bytesRead, ['README', 'README.2', 'a/1', 'a/3', 'b/1', 'c/1', 'c/2']);
  });

  it('fails with the unreadable file, in any part', async () => {
    for (const path of ['a/1', 'b/1', 'b/3']) {
      const origin = new FakeOrigin([]);
      origin.readError = denied;
      origin.unreadable = path;
      const proof = new ReadingProof(origin);
      proof.note(rowsOf('a/1', 'a/2', 'b/1', 'b/2', 'b/3'));
      await assert.rejects(proof.read(signal()), {
        code: 'PermissionDenied',
        message: `the origin lists ${path}, but refuses to serve it: no`,
      });
    }
  });

  it('does not blame permissions when the origin is unreachable, and checks at most a thousand parts', async () => {
    const origin = new FakeOrigin([]);
    const proof = new ReadingProof(origin);
    proof.note(rowsOf(...Array.from({ length: 1500 }, (_, part) => [`${part}/a`, `${part}/b`]).flat()));
    await proof.read(signal());
    assert.equal(origin.bytesRead.length, 2000);
    origin.readError = new HearthError('Unavailable', 'away');
    await assert.rejects(proof.read(signal()), { code: 'Unavailable', message: 'away' });
  });

  it('reads nothing from an origin without bytes', async () => {
    const origin = new FakeOrigin([]);
    origin.readError = denied;
    const proof = new ReadingProof(origin);
    proof.note([fileRow('empty', 0n)]);
    await proof.read(signal());
  });
});
