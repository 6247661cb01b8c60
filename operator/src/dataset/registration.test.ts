import assert from 'node:assert/strict';
import type { DatasetSource } from '@hearth/common/resources';
import { refuseDirectory, sourceOf } from './registration.ts';

const of = (source: DatasetSource) => sourceOf({ source, unusableNames: 'Skip', weakValidators: 'Refuse' });

describe('source of a Dataset', () => {
  it('is what agents take, with nothing left undefined', () => {
    assert.deepEqual(of({ s3: { bucket: 'models', prefix: 'a/', pathStyle: false } }), {
      kind: { $case: 's3', value: { bucket: 'models', prefix: 'a/', endpoint: '', region: '', pathStyle: false } },
      allowPrivate: false,
      unusableNames: 'Skip',
      allowWeakValidators: false,
    });
    assert.deepEqual(of({ http: { urls: ['https://h/a'] } }).kind, {
      $case: 'http',
      value: { urls: ['https://h/a'], sha256: {} },
    });
    const hub = { endpoint: 'https://huggingface.co', repoType: 'model' as const, repo: 'o/m', revision: 'main' };
    for (const [layout, taken] of [
      ['files', ''],
      ['hub', 'hub'],
    ] as const) {
      assert.deepEqual(of({ hub: { ...hub, layout } }).kind, { $case: 'hub', value: { ...hub, layout: taken } });
    }
    assert.deepEqual(of({ directory: { path: '/d' } }).kind, { $case: 'directory', value: { path: '/d' } });
    assert.deepEqual(of({ selfTest: {} }).kind, { $case: 'selfTest', value: {} });
  });

  it('may be a directory only below a prefix of the StorageCluster', () => {
    const refused = (path: string, ...prefixes: string[]) => refuseDirectory({ directory: { path } }, prefixes);
    assert.equal(refused('/data/models/llama', '/srv', '/data/models'), undefined);
    assert.equal(refused('/data/models', '/data/models'), undefined);
    assert.match(
      refused('/etc') ?? '',
      /does not let agents read the directory \/etc: it allows no directories at all/,
    );
    assert.match(refused('/database', '/data') ?? '', /directories below \/data;/);
    for (const path of ['/data/../etc', '/data/./x', '/data//x', 'data/x', '/data/', '/data/x/..']) {
      assert.match(refused(path, '/data') ?? '', /not an absolute path/, path);
    }
    assert.equal(refuseDirectory({ selfTest: {} }, []), undefined);
  });

  it('has the time for which reads wait for it, where the spec gives one', () => {
    const spec = { source: { selfTest: {} }, unusableNames: 'Fail', weakValidators: 'Refuse' } as const;
    assert.equal(sourceOf({ ...spec, reads: { originWait: '2m' } }).originWaitSeconds, 120);
    assert.equal(sourceOf({ ...spec, reads: { originWait: '0s' } }).originWaitSeconds, 0);
    assert.equal(sourceOf(spec).originWaitSeconds, undefined);
  });

  it('has the mirrors of the spec, in their order', () => {
    const mirrors = [{ directory: { path: '/data/copy' } }, { http: { urls: ['https://b.example/m/'] } }];
    const spec = { source: { selfTest: {} }, mirrors, unusableNames: 'Fail', weakValidators: 'Refuse' } as const;
    const kinds = sourceOf(spec).mirrors?.sources.map(({ kind }) => kind?.$case);
    assert.deepEqual(kinds, ['directory', 'http']);
    assert.equal(sourceOf({ ...spec, mirrors: undefined }).mirrors, undefined);
    const server = { http: { urls: ['https://b.example/m/'] }, secretRef: { name: 's' } };
    const secret = { mirrors: [{ directory: { path: '/data/copy' } }, server] };
    const { credentialed, sourceHasNone } = sourceOf({ ...spec, ...secret }).mirrors ?? {};
    assert.deepEqual([credentialed, sourceHasNone], [[1], true]);
    assert.equal(sourceOf({ ...spec, ...secret, secretRef: { name: 'f' } }).mirrors?.sourceHasNone, false);
  });
});
