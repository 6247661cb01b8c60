import assert from 'node:assert/strict';
import { HearthError } from '@hearth/common';
import { readSource, type SourceOptions } from './source_options.ts';

describe('readSource', () => {
  const kindOf = async (texts: string[], options: SourceOptions = {}) =>
    (await readSource(texts, options, '/here')).kind;
  const digest = 'ef'.repeat(32);

  it('treats a word without a scheme as a directory', async () => {
    assert.deepEqual(await kindOf(['models']), { $case: 'directory', value: { path: '/here/models' } });
    assert.deepEqual(await kindOf(['../models']), { $case: 'directory', value: { path: '/models' } });
    assert.deepEqual(await kindOf(['/models with blank']), {
      $case: 'directory',
      value: { path: '/models with blank' },
    });
  });

  it('puts options into S3 sources', async () => {
    assert.deepEqual(await kindOf(['s3://bucket/a/b'], { endpoint: 'https://s3.example.com/', region: 'eu' }), {
      $case: 's3',
      value: { bucket: 'bucket', prefix: 'a/b', endpoint: 'https://s3.example.com', region: 'eu', pathStyle: true },
    });
  });

  it('puts an endpoint into hub sources', async () => {
    assert.deepEqual(await kindOf(['hf://org/model@v1'], { endpoint: 'http://hub.local' }), {
      $case: 'hub',
      value: { endpoint: 'http://hub.local', repoType: 'model', repo: 'org/model', revision: 'v1', layout: '' },
    });
  });

  it('takes several URLs and digests', async () => {
    assert.deepEqual(await kindOf(['https://e.com/a', 'https://e.com/b'], { sha256: [`b=${digest.toUpperCase()}`] }), {
      $case: 'http',
      value: { urls: ['https://e.com/a', 'https://e.com/b'], sha256: { b: digest } },
    });
  });

  it('parses mirrors like sources', async () => {
    const source = await readSource(['s3://bucket/m'], { mirror: ['copies', 'https://b.example/m/'] }, '/here');
    assert.deepEqual(
      source.mirrors?.sources.map(({ kind }) => kind),
      [
        { $case: 'directory', value: { path: '/here/copies' } },
        { $case: 'http', value: { urls: ['https://b.example/m/'], sha256: {} } },
      ],
    );
    assert.equal((await readSource(['/m'], {}, '/here')).mirrors, undefined);
  });

  it('passes on the rules for addresses and names', async () => {
    const source = await readSource(['/m'], { allowPrivate: true, unusableNames: 'skip' }, '/');
    assert.equal(source.allowPrivate, true);
    assert.equal(source.unusableNames, 'Skip');
  });

  const refused: [string, string[], SourceOptions, RegExp][] = [
    ['an unknown scheme', ['gs://bucket'], {}, /scheme "gs"/],
    ['two directories', ['/a', '/b'], {}, /several sources/],
    ['an endpoint for a directory', ['/a'], { endpoint: 'https://e.com' }, /--endpoint is for/],
    ['a region for a hub', ['hf://org/model'], { region: 'eu' }, /--region and --path-style/],
    ['a malformed endpoint', ['s3://bucket'], { endpoint: 'e.com' }, /endpoint/],
    ['a malformed digest', ['https://e.com/a'], { sha256: ['a=12'] }, /64 hexadecimal digits/],
    ['a digest for S3', ['s3://bucket'], { sha256: [`a=${digest}`] }, /--sha256 is for/],
  ];
  for (const [what, texts, options, message] of refused) {
    it(`refuses ${what}`, async () => {
      await assert.rejects(readSource(texts, options, '/'), (thrown) => {
        assert.ok(thrown instanceof HearthError);
        assert.equal(thrown.code, 'InvalidArgument');
        assert.match(thrown.message, message);
        return true;
      });
    });
  }
});
