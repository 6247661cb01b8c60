import assert from 'node:assert/strict';
import type { Source } from '@hearth/common/generated/hearth/v1/control.ts';
import { mirroredKey } from './content_key.ts';
import { checkMirrors, comparesTags, keyScopeOf, placeKey, placeName } from './mirrors.ts';
import { parseSource } from './source.ts';

const noneOwn = { credentialed: [], sourceHasNone: false };

const withMirrors = (text: string, ...mirrors: string[]): Source => ({
  ...parseSource(text),
  mirrors: { ...noneOwn, sources: mirrors.map(parseSource) },
});

describe('mirrors', () => {
  it('may be directories, buckets, web servers, and hubs for a hub', () => {
    checkMirrors(parseSource('/data'));
    checkMirrors(withMirrors('https://a.example/m/', '/m', 's3://bucket/m', 'https://b.example/m/'));
    checkMirrors(withMirrors('hf://org/m', 'hf://org/m?endpoint=https://hub.example'));
    const refused: [Source, RegExp][] = [
      [withMirrors('/data', 'hf://org/m'), /a hub can be a mirror of a hub only/],
      [withMirrors('/data', 'selftest://'), /a mirror is a directory, an S3 bucket/],
      [withMirrors('/data', '/data/'), /\/data is named twice/],
      [withMirrors('/data', '/a', '/a'), /\/a is named twice/],
      [withMirrors('/data', ...Array.from({ length: 16 }, (_, n) => `/m${n}`)), /16 mirrors; at most 15/],
      [
        { ...parseSource('/data'), mirrors: { ...noneOwn, sources: [withMirrors('/a', '/b')] } },
        /no mirrors of its own/,
      ],
    ];
    for (const [source, message] of refused) {
      assert.throws(() => checkMirrors(source), { code: 'InvalidArgument', message });
    }
  });

  it('have one place regardless of explicit defaults and request settings', () => {
    const same = [
      ['hf://org/m', 'hf://org/m?endpoint=https://huggingface.co'],
      ['s3://bucket/m?endpoint=https://e', 's3://bucket/m?endpoint=https://e&pathStyle=false&region=r'],
    ];
    for (const [a = '', b = ''] of same) assert.equal(placeKey(parseSource(a)), placeKey(parseSource(b)));
    assert.equal(placeKey(parseSource('https://a.example/m/')), '["http","https://a.example/m/"]');
  });

  it('have different places for different treatment of names', () => {
    const s3 = (bucket: string, prefix: string, endpoint: string): Source => {
      const kind = { $case: 's3' as const, value: { bucket, prefix, endpoint, region: '', pathStyle: true } };
      return { kind, allowPrivate: false, unusableNames: '', allowWeakValidators: false };
    };
    const pairs: [Source, Source][] = [
      [s3('b', 'm?endpoint=https://e', ''), s3('b', 'm', 'https://e')],
      [s3('b', 'm\0n', ''), s3('b', 'm', '')],
      [s3('b', '', ''), { ...parseSource('/x'), kind: { $case: 'directory', value: { path: 's3://b' } } }],
      [
        parseSource('https://a.example/m/ https://b.example/m/'),
        parseSource('https://a.example/m/%20https://b.example/m/'),
      ],
    ];
    for (const [a, b] of pairs) assert.notEqual(placeKey(a), placeKey(b));
    const key = 'ab'.repeat(32);
    const scoped = (...sources: Source[]) =>
      keyScopeOf({ ...parseSource('/data'), mirrors: { ...noneOwn, sources } })?.(key);
    assert.notEqual(scoped(s3('b', 'a', ''), s3('b', 'c', '')), scoped(s3('b', 'a","c', '')));
  });

  it('have names that are bounded for logs', () => {
    const urls = Array.from({ length: 50 }, (_, n) => `https://a.example/m/${n}`);
    assert.equal(placeName(parseSource('https://a.example/m/')), 'https://a.example/m/');
    assert.ok(placeName(parseSource(urls.join(' '))).length <= 200);
  });

  it('are proved equal by ETags only where both sides derive ETags from the bytes', () => {
    const [s3, http] = [parseSource('s3://bucket/m'), parseSource('https://a.example/m/')];
    assert.equal(comparesTags(s3, parseSource('s3://other/m')), true);
    for (const [a, b] of [
      [s3, http],
      [http, http],
      [http, s3],
    ] as const)
      assert.equal(comparesTags(a, b), false);
  });

  it('are part of the content keys in any order, because they may supply the bytes', () => {
    const key = 'ab'.repeat(32);
    assert.equal(keyScopeOf(parseSource('/data')), undefined);
    const scoped = (...mirrors: string[]) => keyScopeOf(withMirrors('/data', ...mirrors))?.(key);
    assert.equal(scoped('/a', '/b'), mirroredKey(key, ['["directory","/a"]', '["directory","/b"]']));
    assert.equal(scoped('/a', '/b'), scoped('/b', '/a'));
    assert.notEqual(scoped('/a'), scoped('/b'));
    assert.notEqual(scoped('/a'), key);
    // Must never change, because caches and manifests contain it.
    assert.equal(scoped('/a'), '916ae8e4f4fd08a274e8f828a01ca369d4cf6b59443d1bd6defddab918f10f80');
  });
});
