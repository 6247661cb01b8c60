import assert from 'node:assert/strict';
import { joinSecrets, namedSecrets } from './named_secrets.ts';
import { dataset } from './testing/fixtures.ts';

const base64 = (text: string) => Buffer.from(text).toString('base64');
const found = (values: Record<string, string>) => ({
  kind: 'found' as const,
  data: Object.fromEntries(Object.entries(values).map(([key, value]) => [key, base64(value)])),
});

describe('the Secrets of a Dataset', () => {
  const bucket = { bucket: 'copies', prefix: '', pathStyle: false };
  const { spec } = dataset({
    source: { http: { urls: ['https://a.example/m/'] } },
    secretRef: { name: 'first' },
    mirrors: [{ directory: { path: '/data/m' } }, { s3: bucket, secretRef: { name: 'copies' } }],
  });

  it('are those of its source and of its mirrors, each for its own place', () => {
    const [first, copies, ...rest] = namedSecrets(spec);
    assert.ok(first && copies);
    assert.deepEqual(rest, []);
    const { view, unusable } = joinSecrets([
      { ...first, reading: found({ token: 't' }) },
      { ...copies, reading: found({ accessKeyId: 'i', secretAccessKey: 's' }) },
    ]);
    assert.deepEqual(unusable, []);
    assert.ok(view.kind === 'found');
    assert.equal(view.credentials.token, 't');
    const [given] = view.credentials.mirrors?.mirrors ?? [];
    assert.deepEqual(given?.mirror?.kind, { $case: 's3', value: { ...bucket, endpoint: '', region: '' } });
    assert.equal(given?.credentials?.accessKeyId, 'i');
  });

  it('do not keep anything from being read but the mirror whose own cannot be used', () => {
    const [first, copies] = namedSecrets(spec);
    assert.ok(first && copies);
    const { view, unusable } = joinSecrets([
      { ...first, reading: found({ token: 't' }) },
      { ...copies, reading: found({ token: 't' }) },
    ]);
    assert.ok(view.kind === 'found');
    assert.equal(view.credentials.token, 't');
    // It is named, so that the node's own identity is not used for it.
    const [given] = view.credentials.mirrors?.mirrors ?? [];
    assert.equal(given?.mirror?.kind?.$case, 's3');
    assert.equal(given.credentials, undefined);
    assert.deepEqual(
      unusable.map(({ name, view: lack }) => [name, lack]),
      [['copies', { kind: 'keysMissing', keys: ['accessKeyId', 'secretAccessKey'], present: ['token'] }]],
    );
    assert.deepEqual(joinSecrets([{ ...first, reading: { kind: 'missing' } }]), {
      view: { kind: 'missing' },
      unusable: [],
    });
  });
});
