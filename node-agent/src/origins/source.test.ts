import assert from 'node:assert/strict';
import { describeSource, parseSource } from './source.ts';
import { hubToken, withEnvironment } from './source_environment.ts';

const hex = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855';

describe('parseSource', () => {
  const s3 = { prefix: '', endpoint: '', region: '', pathStyle: false };
  const cases: [string, unknown][] = [
    ['/models/llama/', { $case: 'directory', value: { path: '/models/llama' } }],
    ['dir /models/with space', { $case: 'directory', value: { path: '/models/with space' } }],
    ['selftest://', { $case: 'selfTest', value: {} }],
    ['volume://kv', { $case: 'volume', value: { name: 'kv', path: '' } }],
    ['volume://kv/models//a/', { $case: 'volume', value: { name: 'kv', path: 'models/a' } }],
    ['./models', { $case: 'directory', value: { path: `${process.cwd()}/models` } }],
    ['file:///models/a%20b', { $case: 'directory', value: { path: '/models/a b' } }],
    ['s3://bucket', { $case: 's3', value: { ...s3, bucket: 'bucket' } }],
    [
      's3://bucket/pre fix/%20?endpoint=https://s3.example.com:9000/&region=eu-west-1',
      {
        $case: 's3',
        value: {
          bucket: 'bucket',
          prefix: 'pre fix/%20',
          endpoint: 'https://s3.example.com:9000',
          region: 'eu-west-1',
          pathStyle: true,
        },
      },
    ],
    [
      's3://bucket/x?endpoint=https://s3.example.com&pathStyle=false',
      { $case: 's3', value: { ...s3, bucket: 'bucket', prefix: 'x', endpoint: 'https://s3.example.com' } },
    ],
    ['https://example.com/models/', { $case: 'http', value: { urls: ['https://example.com/models/'], sha256: {} } }],
    [
      `https://example.com/a%20b#sha256=${hex}  http://example.com/c?d=e`,
      {
        $case: 'http',
        value: { urls: ['https://example.com/a%20b', 'http://example.com/c?d=e'], sha256: { 'a b': hex } },
      },
    ],
    [
      'hf://org/model',
      { $case: 'hub', value: { endpoint: '', repoType: 'model', repo: 'org/model', revision: 'main', layout: '' } },
    ],
    [
      'hf://gpt2@refs/pr/1',
      { $case: 'hub', value: { endpoint: '', repoType: 'model', repo: 'gpt2', revision: 'refs/pr/1', layout: '' } },
    ],
    [
      'hf://datasets/org/name@v1.0?endpoint=http://hub.local:8080/',
      {
        $case: 'hub',
        value: {
          endpoint: 'http://hub.local:8080',
          repoType: 'dataset',
          repo: 'org/name',
          revision: 'v1.0',
          layout: '',
        },
      },
    ],
    [
      'hf://spaces/org/name',
      { $case: 'hub', value: { endpoint: '', repoType: 'space', repo: 'org/name', revision: 'main', layout: '' } },
    ],
  ];
  for (const [text, kind] of cases) {
    it(`reads "${text}"`, () => {
      assert.deepEqual(parseSource(text), {
        kind,
        allowPrivate: false,
        unusableNames: 'Fail',
        allowWeakValidators: false,
      });
    });
  }

  const wrong: [string, RegExp][] = [
    ['', /is empty/],
    ['models/llama', /has no scheme/],
    ['ftp://host/x', /scheme "ftp", which is not known/],
    ['file://host/x', /not a file URL of this machine/],
    ['s3://', /no usable bucket name/],
    ['s3://b/x', /no usable bucket name/],
    ['s3://KEY:hunter2@bucket/x', /credentials in it/],
    ['s3://bucket/x?endpoint=s3.example.com', /endpoint that is not a plain/],
    ['s3://bucket/x?endpoint=https://u:hunter2@s3.example.com', /credentials in its endpoint/],
    ['s3://bucket/x?secret=hunter2', /unknown parameter .* endpoint, region, pathStyle/],
    ['s3://bucket/x?pathStyle=yes', /pathStyle/],
    ['https://u:hunter2@example.com/x', /credentials in its URL/],
    ['https://example.com/x hunter2', /malformed URL/],
    ['https://example.com/x s3://bucket/y', /mixes/],
    ['https://example.com/x#hunter2', /fragment/],
    [`https://example.com/x/#sha256=${hex}`, /index page/],
    ['https://', /malformed URL/],
    [`https://example.com/a%2Fb#sha256=${hex}`, /encoded "\/"/],
    [`https://example.com/%ff#sha256=${hex}`, /not UTF-8/],
    ['hf://', /no usable repository/],
    ['hf://org/model/file.bin', /no usable repository.*include/],
    ['hf://org/../x', /no usable repository/],
    ['hf://org/model@', /no usable revision/],
    ['hf://org/model?layout=blobs', /neither "files" nor "hub"/],
    ['hf://org/model?revision=x', /unknown parameter/],
    ['volume:///a', /no usable name of a volume/],
    ['volume://kv/../a', /".." in its path/],
    ['/a\0b', /NUL/],
  ];
  for (const [text, message] of wrong) {
    it(`refuses ${JSON.stringify(text)} with an example and without repeating it`, () => {
      assert.throws(
        () => parseSource(text),
        (thrown: { code: string; message: string }) => {
          assert.equal(thrown.code, 'InvalidArgument');
          assert.match(thrown.message, message);
          assert.match(thrown.message, /examples: .*hf:\/\/org\/model@main/);
          assert.doesNotMatch(thrown.message, /hunter2/);
          return true;
        },
      );
    });
  }
});

describe('describeSource', () => {
  it('writes the form that parseSource reads, without queries of URLs', () => {
    const texts = [
      '/models/llama',
      's3://bucket/prefix?endpoint=https://s3.example.com&region=eu-west-1',
      'hf://datasets/org/name@v1?endpoint=http://hub.local:8080',
      'hf://org/name@main?layout=hub',
      'selftest://',
    ];
    for (const text of texts) assert.equal(describeSource(parseSource(text)), text);
    assert.equal(
      describeSource(parseSource('https://h.example/a?token=x https://h.example/b')),
      'https://h.example/a https://h.example/b',
    );
  });
});

describe('withEnvironment', () => {
  it('fills in what the source leaves open, and nothing else', () => {
    const environment = { AWS_ENDPOINT_URL: 'http://minio:9000/', AWS_REGION: 'r', HF_ENDPOINT: 'https://hub.local/' };
    assert.equal(
      describeSource(withEnvironment(parseSource('s3://bucket/x'), environment)),
      's3://bucket/x?endpoint=http://minio:9000&region=r',
    );
    const kind = withEnvironment(parseSource('s3://bucket/x'), environment).kind;
    assert.equal(kind?.$case === 's3' && kind.value.pathStyle, true);
    const full = 's3://bucket/x?endpoint=https://e.example&region=eu';
    assert.equal(describeSource(withEnvironment(parseSource(full), environment)), full);
    assert.equal(
      describeSource(withEnvironment(parseSource('hf://o/m'), environment)),
      'hf://o/m@main?endpoint=https://hub.local',
    );
    assert.equal(
      describeSource(withEnvironment(parseSource('hf://o/m'), {})),
      'hf://o/m@main?endpoint=https://huggingface.co',
    );
    assert.throws(() => withEnvironment(parseSource('hf://o/m'), { HF_ENDPOINT: 'hub' }), { code: 'InvalidArgument' });
  });

  it("gives the environment's token only to the environment's hub", () => {
    assert.equal(hubToken('https://huggingface.co', { HF_TOKEN: 't' }), 't');
    assert.equal(hubToken('https://evil.example', { HF_TOKEN: 't' }), undefined);
    assert.equal(hubToken('https://hub.local', { HF_TOKEN: 't', HF_ENDPOINT: 'https://hub.local/' }), 't');
    assert.equal(hubToken('https://huggingface.co', { HF_TOKEN: 't', HF_ENDPOINT: 'https://hub.local/' }), undefined);
  });
});
