import { accepted, type Case, many, refused } from './custom_resource_case.ts';

const hub = { repo: 'org/model' };
const dataset = (source: object, change: object = {}) => ({ source, ...change });
const kinds = /exactly one of s3, http, hub, directory, volume and selfTest must be given/;
const mirrorKinds = /exactly one of s3, http, hub and directory must be given/;
const digest = 'a'.repeat(64);

export const datasetCases: Case[] = [
  accepted('a hub', dataset({ hub })),
  accepted(
    'a bucket',
    dataset(
      {
        s3: {
          bucket: 'models',
          prefix: 'a/',
          endpoint: 'https://s3.example.com:9000',
          region: 'eu-1',
          pathStyle: true,
        },
      },
      { secretRef: { name: 'reader' } },
    ),
  ),
  accepted(
    'web servers',
    dataset({
      http: { urls: ['https://example.com/a.bin', 'http://example.com/models/'], sha256: { 'a.bin': digest } },
    }),
  ),
  accepted('a folder', dataset({ directory: { path: '/mnt/models/a' } })),
  accepted('the self-test', dataset({ selfTest: {} })),
  accepted(
    'a volume, whose leader may be asked each second',
    dataset({ volume: { claimName: 'runs', path: 'checkpoints/latest' } }, { refresh: { interval: '1s' } }),
  ),
  accepted('a whole volume', dataset({ volume: { claimName: 'runs' } })),
  accepted(
    'everything else',
    dataset(
      { hub: { ...hub, endpoint: 'https://hub.example.com', repoType: 'dataset', revision: 'refs/pr/1' } },
      {
        clusterRef: { name: 'main' },
        secretRef: { name: 'token' },
        include: ['*.safetensors', '*.json'],
        exclude: ['original/**'],
        unusableNames: 'Skip',
        refresh: { interval: '1h' },
      },
    ),
  ),
  accepted(
    'mirrors with Secrets of their own',
    dataset(
      { hub },
      {
        mirrors: [
          { hub: { ...hub, endpoint: 'https://hub.example.com' }, secretRef: { name: 'token' } },
          { s3: { bucket: 'copies' }, secretRef: { name: 'copies' } },
          { http: { urls: ['https://example.com/m/'] } },
          { directory: { path: '/mnt/models/a' } },
        ],
      },
    ),
  ),
  refused('a mirror of no kind', 'spec.mirrors[0]', mirrorKinds, dataset({ hub }, { mirrors: [{}] })),
  refused(
    'a mirror of two kinds',
    'spec.mirrors[0]',
    mirrorKinds,
    dataset({ hub }, { mirrors: [{ hub, directory: { path: '/mnt/models/a' } }] }),
  ),
  refused('the self-test as a mirror', '', /unknown field/, dataset({ hub }, { mirrors: [{ selfTest: {} }] })),
  refused(
    'a folder as a mirror, with a Secret',
    'spec.mirrors[0].secretRef',
    /a directory has no credentials/,
    dataset({ hub }, { mirrors: [{ directory: { path: '/mnt/models/a' }, secretRef: { name: 'token' } }] }),
  ),
  refused(
    'a hub as a mirror of something else',
    'spec.mirrors',
    /a hub can be a mirror of a hub only/,
    dataset({ directory: { path: '/mnt/models/a' } }, { mirrors: [{ hub }] }),
  ),
  refused(
    'too many mirrors',
    'spec.mirrors',
    /must have at most 15/,
    dataset({ hub }, { mirrors: many(16, (i) => ({ s3: { bucket: `copies-${i}` } })) }),
  ),
  refused('no source', 'spec.source', /Required value/, {}),
  refused('a source of no kind', 'spec.source', kinds, dataset({})),
  refused('a source of two kinds', 'spec.source', kinds, dataset({ hub, selfTest: {} })),
  refused('a source of a kind that is not known', '', /unknown field "spec.source.ftp"/, dataset({ hub, ftp: {} })),
  refused('a bucket without a name', 'spec.source.s3.bucket', /Required value/, dataset({ s3: {} })),
  refused('a bucket with a slash', 'spec.source.s3.bucket', /should match/, dataset({ s3: { bucket: 'a/b' } })),
  refused(
    'a prefix that is too long',
    'spec.source.s3.prefix',
    /may not be more than 1024/,
    dataset({ s3: { bucket: 'models', prefix: 'a'.repeat(1025) } }),
  ),
  refused(
    'an endpoint without a scheme',
    'spec.source.s3.endpoint',
    /should match/,
    dataset({ s3: { bucket: 'models', endpoint: 's3.example.com' } }),
  ),
  refused('no URLs', 'spec.source.http.urls', /at least 1 items/, dataset({ http: { urls: [] } })),
  refused(
    'too many URLs',
    'spec.source.http.urls',
    /must have at most 1000/,
    dataset({ http: { urls: many(1001, (i) => `https://example.com/${i}`) } }),
  ),
  refused(
    'a URL of another scheme',
    'spec.source.http.urls[0]',
    /should match/,
    dataset({ http: { urls: ['file:///etc/passwd'] } }),
  ),
  refused(
    'a URL with a password',
    'spec.source.http.urls[0]',
    /should match/,
    dataset({ http: { urls: ['https://user:password@example.com/a'] } }),
  ),
  refused(
    'a URL with a query, which may be a signature',
    'spec.source.http.urls[0]',
    /should match/,
    dataset({ http: { urls: ['https://example.com/a?X-Amz-Signature=1'] } }),
  ),
  refused(
    'an endpoint with a query',
    'spec.source.hub.endpoint',
    /should match/,
    dataset({ hub: { ...hub, endpoint: 'https://hub.example.com?token=1' } }),
  ),
  refused(
    'a digest that is too short',
    'spec.source.http.sha256.a',
    /should match|at least 64 chars/,
    dataset({ http: { urls: ['https://example.com/a'], sha256: { a: 'abc' } } }),
  ),
  refused(
    'a repository with too many parts',
    'spec.source.hub.repo',
    /should match/,
    dataset({ hub: { repo: 'a/b/c' } }),
  ),
  refused(
    'a repository of another kind',
    'spec.source.hub.repoType',
    /supported values: "model", "dataset", "space"/,
    dataset({ hub: { ...hub, repoType: 'models' } }),
  ),
  refused(
    'a revision that goes up',
    'spec.source.hub.revision',
    /should match/,
    dataset({ hub: { ...hub, revision: '../main' } }),
  ),
  refused(
    'a relative folder',
    'spec.source.directory.path',
    /should match/,
    dataset({ directory: { path: 'models' } }),
  ),
  refused(
    'a folder that goes up',
    'spec.source.directory.path',
    /without "\." and "\.\."/,
    dataset({ directory: { path: '/mnt/models/../../etc' } }),
  ),
  refused(
    'a path in a volume that goes up',
    'spec.source.volume.path',
    /without "\." and "\.\."/,
    dataset({ volume: { claimName: 'runs', path: 'a/../b' } }),
  ),
  refused(
    'an absolute path in a volume',
    'spec.source.volume.path',
    /should match/,
    dataset({ volume: { claimName: 'runs', path: '/a' } }),
  ),
  refused('a volume without a claim', 'spec.source.volume.claimName', /Required value/, dataset({ volume: {} })),
  refused(
    'a volume of another namespace',
    '',
    /unknown field "spec.source.volume.namespace"/,
    dataset({ volume: { claimName: 'runs', namespace: 'other' } }),
  ),
  refused(
    'credentials of a volume',
    'spec.secretRef',
    /have no credentials/,
    dataset({ volume: { claimName: 'runs' } }, { secretRef: { name: 'a' } }),
  ),
  refused(
    'mirrors of a volume',
    'spec.mirrors',
    /a volume has no mirrors/,
    dataset({ volume: { claimName: 'runs' } }, { mirrors: [{ s3: { bucket: 'copies' } }] }),
  ),
  refused(
    'credentials of a folder',
    'spec.secretRef',
    /have no credentials/,
    dataset({ directory: { path: '/mnt/a' } }, { secretRef: { name: 'a' } }),
  ),
  refused(
    'a Secret of another namespace',
    '',
    /unknown field "spec.secretRef.namespace"/,
    dataset({ hub }, { secretRef: { name: 'a', namespace: 'kube-system' } }),
  ),
  refused(
    'a name of a Secret that cannot be',
    'spec.secretRef.name',
    /should match/,
    dataset({ hub }, { secretRef: { name: 'A' } }),
  ),
  refused(
    'too many globs',
    'spec.include',
    /must have at most 100/,
    dataset({ hub }, { include: many(101, (i) => `${i}`) }),
  ),
  refused('an empty glob', 'spec.exclude[0]', /at least 1 chars/, dataset({ hub }, { exclude: [''] })),
  refused(
    'names that are neither',
    'spec.unusableNames',
    /supported values: "Fail", "Skip"/,
    dataset({ hub }, { unusableNames: 'Ignore' }),
  ),
  refused(
    'validators that are neither',
    'spec.weakValidators',
    /supported values: "Refuse", "Allow"/,
    dataset({ hub }, { weakValidators: 'Ignore' }),
  ),
  refused(
    'a refresh too often',
    'spec.refresh.interval',
    /at least 10s for a source that is no volume/,
    dataset({ hub }, { refresh: { interval: '1s' } }),
  ),
  refused(
    'a refresh all the time',
    'spec.refresh.interval',
    /from 1s to 720h/,
    dataset({ volume: { claimName: 'runs' } }, { refresh: { interval: '0s' } }),
  ),
  refused(
    'a refresh without an interval',
    'spec.refresh.interval',
    /Required value/,
    dataset({ hub }, { refresh: {} }),
  ),
  refused(
    'a cluster that cannot be',
    'spec.clusterRef.name',
    /should match/,
    dataset({ hub }, { clusterRef: { name: 'A_B' } }),
  ),
];
