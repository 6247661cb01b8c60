import { accepted, type Case, many, refused } from './custom_resource_case.ts';

const cache = { path: '/var/cache/hearth' };
const group = { name: 'all', cacheDirectories: [cache] };
const cluster = (change: object = {}) => ({ nodeGroups: [group], ...change });
const withGroup = (change: object) => cluster({ nodeGroups: [{ ...group, ...change }] });
const withCache = (change: object) => withGroup({ cacheDirectories: [{ ...cache, ...change }] });
const firstCache = 'spec.nodeGroups[0].cacheDirectories[0]';
const terms =
  'spec.nodeGroups[0].affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms';
const firstExpression = `${terms}[0].matchExpressions[0]`;
const withExpression = (change: object) => {
  const nodeSelectorTerms = [{ matchExpressions: [{ key: 'a', ...change }] }];
  return withGroup({
    affinity: { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms } } },
  });
};

export const storageClusterCases: Case[] = [
  accepted('only a cache directory', cluster()),
  accepted('everything', {
    nodeGroups: [
      {
        name: 'gpu',
        nodeSelector: { 'node.kubernetes.io/instance-type': 'p5', gpu: 'yes' },
        affinity: {
          nodeAffinity: {
            requiredDuringSchedulingIgnoredDuringExecution: {
              nodeSelectorTerms: [
                { matchExpressions: [{ key: 'zone', operator: 'In', values: ['a', 'b'] }] },
                {
                  matchExpressions: [
                    { key: 'disks', operator: 'Gt', values: ['3'] },
                    { key: 'slow', operator: 'DoesNotExist' },
                  ],
                },
              ],
            },
          },
        },
        tolerations: [
          { key: 'dedicated', value: 'ml', effect: 'NoSchedule' },
          { key: 'nvidia.com/gpu', operator: 'Exists' },
        ],
        cacheDirectories: [
          { path: '/mnt/nvme0/hearth', budget: '90%', freeFloor: '5%' },
          { path: '/mnt/nvme1/hearth', budget: '1.5Ti', freeFloor: '100Gi' },
        ],
        networks: ['10.1.0.0/16', 'fd00:1::/64'],
        engine: { shards: 8, originConnections: 64, buffer: '1Gi', scrubRate: '100Mi' },
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
      nodeIdentity: { namespaces: ['team'] },
      maxEntries: 100_000_000,
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
  refused(
    'a label that is to be in nothing',
    `${firstExpression}`,
    /In and NotIn need values/,
    withExpression({ operator: 'In' }),
  ),
  refused(
    'a label that is to exist with a value',
    `${firstExpression}`,
    /Exists and DoesNotExist take no values/,
    withExpression({ operator: 'Exists', values: ['a'] }),
  ),
  refused(
    'a label that is more than a word',
    `${firstExpression}`,
    /Gt and Lt need one number/,
    withExpression({ operator: 'Gt', values: ['many'] }),
  ),
  refused(
    'a toleration of a value of every taint',
    'spec.nodeGroups[0].tolerations[0]',
    /without a key the operator must be Exists/,
    withGroup({ tolerations: [{ value: 'a' }] }),
  ),
  refused(
    'a toleration of any value that names one',
    'spec.nodeGroups[0].tolerations[0]',
    /Exists takes no value/,
    withGroup({ tolerations: [{ key: 'a', operator: 'Exists', value: 'b' }] }),
  ),
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
    /must not be inside another one/,
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
    /inside a system folder/,
    withCache({ path: '/etc/hearth' }),
  ),
  refused(
    "the kubelet's folder",
    `${firstCache}.path`,
    /inside a system folder/,
    withCache({ path: '/var/lib/kubelet' }),
  ),
  refused('a folder that holds it', `${firstCache}.path`, /nor contain one/, withCache({ path: '/var/lib' })),
  refused('a folder that holds that', `${firstCache}.path`, /nor contain one/, withCache({ path: '/var' })),
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
  refused('a tiny budget', `${firstCache}.budget`, /from 64Mi to 1Pi/, withCache({ budget: '1Mi' })),
  accepted('the largest budget and floor', withCache({ budget: '1Pi', freeFloor: '1024Ti' })),
  refused('a budget of no disk', `${firstCache}.budget`, /from 64Mi to 1Pi/, withCache({ budget: '1025Ti' })),
  refused(
    'a budget of many digits',
    `${firstCache}.budget`,
    /from 64Mi to 1Pi/,
    withCache({ budget: '999999999999999Ei' }),
  ),
  refused('a floor of no disk', `${firstCache}.freeFloor`, /at most 1Pi/, withCache({ freeFloor: '2Pi' })),
  refused(
    'a floor of 100%',
    `${firstCache}.freeFloor`,
    /from 0% to 99%/,
    withCache({ budget: '1%', freeFloor: '100%' }),
  ),
  refused(
    'a budget and a floor over 100%',
    `${firstCache}.budget`,
    /must not exceed 100% together/,
    withCache({ budget: '60%', freeFloor: '41%' }),
  ),
  refused(
    'a budget that the usual floor leaves no room for',
    `${firstCache}.budget`,
    /must not exceed 100% together/,
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
  accepted('no scrub', withGroup({ engine: { scrubRate: '0' } })),
  refused(
    'a scrub that would never end',
    'spec.nodeGroups[0].engine.scrubRate',
    /from 64Ki to 64Gi, or 0/,
    withGroup({ engine: { scrubRate: '100' } }),
  ),
  refused(
    'a scrub faster than any disk',
    'spec.nodeGroups[0].engine.scrubRate',
    /from 64Ki to 64Gi, or 0/,
    withGroup({ engine: { scrubRate: '65Gi' } }),
  ),
  refused(
    'a rate with a unit of time',
    'spec.nodeGroups[0].engine.scrubRate',
    /should match/,
    withGroup({ engine: { scrubRate: '20Mi/s' } }),
  ),
  accepted(
    'limits of nodes',
    withGroup({ limits: { origin: { total: '1Gi', warm: '1Gi' }, peers: { warm: '64Ki' }, disk: { total: '1Ti' } } }),
  ),
  refused(
    'a limit that limits nothing',
    'spec.nodeGroups[0].limits.disk',
    /total or warm must be given/,
    withGroup({ limits: { disk: {} } }),
  ),
  refused(
    'more warm work than there is of everything',
    'spec.nodeGroups[0].limits.origin.warm',
    /must not be more than total/,
    withGroup({ limits: { origin: { total: '100Mi', warm: '1Gi' } } }),
  ),
  refused(
    'a limit at which nothing would come',
    'spec.nodeGroups[0].limits.peers.total',
    /at least 64Ki/,
    withGroup({ limits: { peers: { total: '1Ki' } } }),
  ),
  refused(
    'a limit that no link reaches',
    'spec.nodeGroups[0].limits.peers.total',
    /at most 1Ti/,
    withGroup({ limits: { peers: { total: '2Ti' } } }),
  ),
  refused(
    'datasets of no files',
    'spec.origins.maxEntries',
    /greater than or equal to 1/,
    cluster({ origins: { maxEntries: 0 } }),
  ),
  refused(
    'datasets of too many files',
    'spec.origins.maxEntries',
    /less than or equal to 100000000|less than or equal to 1e\+08/,
    cluster({ origins: { maxEntries: 100_000_001 } }),
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
    /requires size/,
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
    /secretRef requires endpoints/,
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

export const nodeCacheCases: Case[] = [
  accepted('a node', { clusterRef: { name: 'main' }, nodeName: 'node-1.example.com' }),
  refused('no node', 'spec.nodeName', /Required value/, { clusterRef: { name: 'main' } }),
  refused('no cluster', 'spec.clusterRef', /Required value/, { nodeName: 'node-1' }),
];
