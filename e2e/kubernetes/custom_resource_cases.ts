/** Specs of custom resources, and what the API server says of them. */

export interface Case {
  what: string;
  spec: Record<string, unknown>;
  /** Absent: it is taken. */
  refused?: { field: string; message: RegExp };
}

const accepted = (what: string, spec: Record<string, unknown>): Case => ({ what, spec });
const refused = (what: string, field: string, message: RegExp, spec: Record<string, unknown>): Case => ({
  what,
  spec,
  refused: { field, message },
});

const cache = { path: '/var/cache/hearth' };
const group = { name: 'all', cacheDirectories: [cache] };
const cluster = (change: object = {}) => ({ nodeGroups: [group], ...change });
const withGroup = (change: object) => cluster({ nodeGroups: [{ ...group, ...change }] });
const withCache = (change: object) => withGroup({ cacheDirectories: [{ ...cache, ...change }] });
const firstCache = 'spec.nodeGroups[0].cacheDirectories[0]';
const many = <T>(count: number, make: (index: number) => T): T[] => Array.from({ length: count }, (_, i) => make(i));

export const storageClusterCases: Case[] = [
  accepted('only a cache directory', cluster()),
  accepted('everything', {
    nodeGroups: [
      {
        name: 'gpu',
        nodeSelector: { 'node.kubernetes.io/instance-type': 'p5', gpu: 'yes' },
        cacheDirectories: [
          { path: '/mnt/nvme0/hearth', budget: '90%', freeFloor: '5%' },
          { path: '/mnt/nvme1/hearth', budget: '1.5Ti', freeFloor: '100Gi' },
        ],
        networks: ['10.1.0.0/16', 'fd00:1::/64'],
        engine: { shards: 8, originConnections: 64, buffer: '1Gi' },
        resources: { requests: { cpu: 2, memory: '4Gi' }, limits: { memory: '8Gi' } },
        priorityClassName: 'system-node-critical',
      },
    ],
    store: {
      endpoints: ['https://10.0.0.1:2379', 'https://etcd.example.com:2379'],
      secretRef: { name: 'etcd-client' },
    },
    origins: {
      directoryPrefixes: ['/mnt/models'],
      allowedNetworks: ['10.0.0.0/8'],
      certificateAuthorities: { name: 'company-ca' },
    },
    startupTaint: { enabled: false, timeout: '5m' },
    agentAbsence: '1h',
    logLevel: 'debug',
    image: 'registry.example.com:5000/hearth@sha256:0123456789abcdef',
  }),
  accepted(
    'three members of etcd with volumes',
    cluster({
      store: { etcd: { replicas: 3, storage: { size: '10Gi', storageClassName: 'fast' } } },
    }),
  ),
  accepted('sixteen disks', withGroup({ cacheDirectories: many(16, (i) => ({ path: `/mnt/nvme${i}/hearth` })) })),
  refused('no node groups', 'spec.nodeGroups', /should have at least 1 items/, cluster({ nodeGroups: [] })),
  refused('no spec of groups', 'spec.nodeGroups', /Required value/, {}),
  refused('two groups of one name', 'spec.nodeGroups[1]', /Duplicate value/, cluster({ nodeGroups: [group, group] })),
  refused('a group name with a dot', 'spec.nodeGroups[0].name', /should match/, withGroup({ name: 'a.b' })),
  refused(
    'a group name that is too long',
    'spec.nodeGroups[0].name',
    /may not be more than 40/,
    withGroup({ name: 'a'.repeat(41) }),
  ),
  refused(
    'seventeen groups',
    'spec.nodeGroups',
    /must have at most 16/,
    cluster({ nodeGroups: many(17, (i) => ({ ...group, name: `g${i}` })) }),
  ),
  refused(
    'no cache directory',
    'spec.nodeGroups[0].cacheDirectories',
    /at least 1 items/,
    withGroup({ cacheDirectories: [] }),
  ),
  refused(
    'one directory twice',
    'spec.nodeGroups[0].cacheDirectories[1]',
    /Duplicate value/,
    withGroup({ cacheDirectories: [cache, cache] }),
  ),
  refused(
    'a directory in another',
    'spec.nodeGroups[0].cacheDirectories',
    /must not lie in another one/,
    withGroup({ cacheDirectories: [cache, { path: '/var/cache/hearth/more' }] }),
  ),
  accepted(
    'a directory beside another with a longer name',
    withGroup({ cacheDirectories: [cache, { path: '/var/cache/hearth2' }] }),
  ),
  refused('a relative path', `${firstCache}.path`, /should match/, withCache({ path: 'var/cache' })),
  refused('the root', `${firstCache}.path`, /at least 2 chars|should match/, withCache({ path: '/' })),
  refused('a path with ..', `${firstCache}.path`, /without "\." and "\.\."/, withCache({ path: '/mnt/../etc' })),
  refused('a path that ends in a slash', `${firstCache}.path`, /should match/, withCache({ path: '/mnt/' })),
  refused(
    "a folder of the node's system",
    `${firstCache}.path`,
    /node's own system/,
    withCache({ path: '/etc/hearth' }),
  ),
  refused("the kubelet's folder", `${firstCache}.path`, /node's own system/, withCache({ path: '/var/lib/kubelet' })),
  refused('a budget of 0%', `${firstCache}.budget`, /from 1% to 100%/, withCache({ budget: '0%' })),
  refused(
    'a budget of 101%',
    `${firstCache}.budget`,
    /from 1% to 100%/,
    withCache({ budget: '101%', freeFloor: '0%' }),
  ),
  refused(
    'a budget without a unit that exists',
    `${firstCache}.budget`,
    /should match/,
    withCache({ budget: '10GiB' }),
  ),
  refused('a budget as a number', `${firstCache}.budget`, /must be of type string/, withCache({ budget: 70 })),
  refused('a tiny budget', `${firstCache}.budget`, /at least 64Mi/, withCache({ budget: '1Mi' })),
  refused(
    'a floor of 100%',
    `${firstCache}.freeFloor`,
    /from 0% to 99%/,
    withCache({ budget: '1%', freeFloor: '100%' }),
  ),
  refused(
    'a budget and a floor over 100%',
    `${firstCache}.budget`,
    /more than 100% together/,
    withCache({ budget: '60%', freeFloor: '41%' }),
  ),
  refused(
    'a budget that the usual floor leaves no room for',
    `${firstCache}.budget`,
    /more than 100% together/,
    withCache({ budget: '81%' }),
  ),
  accepted('a budget and a floor of just 100%', withCache({ budget: '80%', freeFloor: '20%' })),
  refused(
    'an address for a network',
    'spec.nodeGroups[0].networks[0]',
    /should match/,
    withGroup({ networks: ['10.0.0.1'] }),
  ),
  refused(
    'a prefix that is too long',
    'spec.nodeGroups[0].networks[0]',
    /should match/,
    withGroup({ networks: ['10.0.0.0/33'] }),
  ),
  refused(
    'a network twice',
    'spec.nodeGroups[0].networks[1]',
    /Duplicate value/,
    withGroup({ networks: ['10.0.0.0/8', '10.0.0.0/8'] }),
  ),
  refused(
    'too many shards',
    'spec.nodeGroups[0].engine.shards',
    /less than or equal to 256/,
    withGroup({ engine: { shards: 257 } }),
  ),
  refused(
    'no connections',
    'spec.nodeGroups[0].engine.originConnections',
    /greater than or equal to 1/,
    withGroup({ engine: { originConnections: 0 } }),
  ),
  refused(
    'a buffer that is too small',
    'spec.nodeGroups[0].engine.buffer',
    /from 32Mi to 64Gi/,
    withGroup({ engine: { buffer: '16Mi' } }),
  ),
  refused(
    'resources that are no quantity',
    'spec.nodeGroups[0].resources.limits.memory',
    /should match/,
    withGroup({ resources: { limits: { memory: 'much' } } }),
  ),
  refused(
    'a node selector with too long a value',
    'spec.nodeGroups[0].nodeSelector.a',
    /may not be more than 63/,
    withGroup({ nodeSelector: { a: 'b'.repeat(64) } }),
  ),
  refused(
    'two kinds of store',
    'spec.store',
    /exactly one of etcd and endpoints/,
    cluster({ store: { etcd: {}, endpoints: ['http://10.0.0.1:2379'] } }),
  ),
  refused('no kind of store', 'spec.store', /exactly one of etcd and endpoints/, cluster({ store: {} })),
  refused('two members', 'spec.store.etcd.replicas', /must be 1 or 3/, cluster({ store: { etcd: { replicas: 2 } } })),
  refused(
    'five members',
    'spec.store.etcd.replicas',
    /less than or equal to 3/,
    cluster({ store: { etcd: { replicas: 5 } } }),
  ),
  refused(
    'a volume and emptyDir',
    'spec.store.etcd.storage',
    /exactly one of emptyDir and size/,
    cluster({ store: { etcd: { storage: { emptyDir: {}, size: '1Gi' } } } }),
  ),
  refused(
    'a class without a size',
    'spec.store.etcd.storage.storageClassName',
    /give size too/,
    cluster({ store: { etcd: { storage: { emptyDir: {}, storageClassName: 'fast' } } } }),
  ),
  refused(
    'an endpoint without a port',
    'spec.store.endpoints[0]',
    /should match/,
    cluster({ store: { endpoints: ['https://10.0.0.1'] } }),
  ),
  refused(
    'endpoints with and without TLS',
    'spec.store.endpoints',
    /all endpoints must be https, or all http/,
    cluster({ store: { endpoints: ['https://10.0.0.1:2379', 'http://10.0.0.2:2379'] } }),
  ),
  refused(
    'certificates for an etcd of ours',
    'spec.store.secretRef',
    /secretRef belongs to endpoints/,
    cluster({ store: { etcd: {}, secretRef: { name: 'a' } } }),
  ),
  refused(
    'a prefix with ..',
    'spec.origins.directoryPrefixes[0]',
    /without "\." and "\.\."/,
    cluster({ origins: { directoryPrefixes: ['/mnt/..'] } }),
  ),
  refused(
    'a network that is none',
    'spec.origins.allowedNetworks[0]',
    /should match/,
    cluster({ origins: { allowedNetworks: ['10.0.0.0'] } }),
  ),
  refused(
    'a timeout without a unit',
    'spec.startupTaint.timeout',
    /should match/,
    cluster({ startupTaint: { timeout: '600' } }),
  ),
  refused(
    'a timeout that is too long',
    'spec.startupTaint.timeout',
    /from 10s to 24h/,
    cluster({ startupTaint: { timeout: '25h' } }),
  ),
  refused('an absence that is too short', 'spec.agentAbsence', /from 1m to 24h/, cluster({ agentAbsence: '5s' })),
  refused(
    'a level that is none',
    'spec.logLevel',
    /supported values: "debug", "info", "warn", "error"/,
    cluster({ logLevel: 'trace' }),
  ),
  refused('an image with a space', 'spec.image', /should match/, cluster({ image: 'a b' })),
];

const hub = { repo: 'org/model' };
const dataset = (source: object, change: object = {}) => ({ source, ...change });
const kinds = /exactly one of s3, http, hub, directory and selfTest must be given/;
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
      http: { urls: ['https://example.com/a.bin?v=2', 'http://example.com/models/'], sha256: { 'a.bin': digest } },
    }),
  ),
  accepted('a folder', dataset({ directory: { path: '/mnt/models/a' } })),
  accepted('the self-test', dataset({ selfTest: {} })),
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
    'a refresh too often',
    'spec.refresh.interval',
    /from 10s to 720h/,
    dataset({ hub }, { refresh: { interval: '1s' } }),
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

export const nodeCacheCases: Case[] = [
  accepted('a node', { clusterRef: { name: 'main' }, nodeName: 'node-1.example.com' }),
  refused('no node', 'spec.nodeName', /Required value/, { clusterRef: { name: 'main' } }),
  refused('no cluster', 'spec.clusterRef', /Required value/, { nodeName: 'node-1' }),
];
