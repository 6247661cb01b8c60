import { z } from 'zod';
import {
  absolutePath,
  asList,
  asSet,
  count,
  duration,
  keyedBy,
  labelName,
  network,
  objectName,
  quantity,
  reference,
  rules,
  share,
  size,
} from './fields.ts';
import { conditionsSchema, type ObjectMeta, observedGeneration } from './metadata.ts';

/** Folders in which a cache would harm the node: the system's own, and those whose mounts come and go. */
const systemFolders = [
  '/proc',
  '/sys',
  '/dev',
  '/run',
  '/etc',
  '/usr',
  '/bin',
  '/sbin',
  '/lib',
  '/boot',
  '/var/lib/kubelet',
  '/var/lib/containerd',
];

const cacheDirectory = z
  .object({
    path: absolutePath({
      rule: `![${systemFolders.map((folder) => `'${folder}'`).join(', ')}].exists(taken, self == taken || self.startsWith(taken + '/'))`,
      message: "must not lie in a folder of the node's own system",
    }).describe('Folder on the node, made when it is missing. One for each disk that is to be used.'),
    budget: share(1, 100, {
      rule: "self.endsWith('%') || quantity(self).compareTo(quantity('64Mi')) >= 0",
      message: 'must be a size of at least 64Mi, or a share such as 70%',
    })
      .default('70%')
      .describe('Most bytes that are kept there: a share of the file system, or a size. A hard limit.'),
    freeFloor: share(0, 99)
      .default('20%')
      .describe(
        'Bytes of the file system that are left free whatever the budget says: a share, or a size. ' +
          "On the kubelet's file system not less than 20%, or images are collected and pods evicted.",
      ),
  })
  .meta(
    rules({
      rule: "!(self.budget.endsWith('%') && self.freeFloor.endsWith('%')) || int(self.budget.replace('%', '')) + int(self.freeFloor.replace('%', '')) <= 100",
      message: 'budget and freeFloor (20% when it is not given) are more than 100% together',
      fieldPath: '.budget',
    }),
  );

const engine = z.object({
  shards: z.int().min(0).max(256).default(0).describe('Threads that own files; 0 chooses by the number of cores.'),
  originConnections: z.int().min(1).max(1024).default(32).describe('Parallel requests of one agent to origins.'),
  buffer: size()
    .default('256Mi')
    .meta(
      rules({
        rule: "quantity(self).compareTo(quantity('32Mi')) >= 0 && quantity(self).compareTo(quantity('64Gi')) <= 0",
        message: 'must be a size from 32Mi to 64Gi',
      }),
    )
    .describe('Memory of one agent for chunks in transfer.'),
});

const resources = z.object({
  requests: z
    .record(z.string(), quantity())
    .optional()
    .meta({ maxProperties: 16 })
    .describe('What the agent is given.'),
  limits: z.record(z.string(), quantity()).optional().meta({ maxProperties: 16 }).describe('What it may use at most.'),
});

const nodeGroup = z.object({
  name: labelName(40).describe('Name of the group.'),
  nodeSelector: z
    .record(z.string(), z.string().max(63))
    .default({})
    .meta({ maxProperties: 16 })
    .describe('Labels of the nodes in this group; none: all nodes. A node belongs to one group of one cluster.'),
  cacheDirectories: z
    .array(cacheDirectory)
    .min(1)
    .max(16)
    .meta({
      ...keyedBy('path'),
      ...rules({
        rule: "self.all(one, !self.exists(other, one.path.startsWith(other.path + '/')))",
        message: 'a cache directory must not lie in another one',
      }),
    })
    .describe('Where bytes are kept on each node.'),
  networks: z
    .array(network())
    .max(16)
    .default([])
    .meta(asSet)
    .describe(
      "Networks, such as 10.1.0.0/16, whose addresses on the node carry data between agents. None: the node's InternalIP.",
    ),
  engine: engine.default({ shards: 0, originConnections: 32, buffer: '256Mi' }).describe('Settings of the data path.'),
  resources: resources.optional().describe('Resources of the agent pods.'),
  priorityClassName: objectName()
    .default('system-node-critical')
    .describe('Priority class of the pods on nodes. The default keeps them when a node runs short of memory.'),
});

const etcdStorage = z
  .object({
    emptyDir: z.object({}).optional().describe('On the disk of the node: gone with the pod, and rebuilt then.'),
    storageClassName: objectName().optional().describe("Class of the volumes; absent: the cluster's default."),
    size: size().optional().describe('Size of each volume.'),
  })
  .meta(
    rules(
      {
        rule: 'has(self.emptyDir) != has(self.size)',
        message: 'exactly one of emptyDir and size must be given',
      },
      {
        rule: '!has(self.storageClassName) || has(self.size)',
        message: 'storageClassName is for volumes: give size too',
        fieldPath: '.storageClassName',
      },
    ),
  );

const etcd = z
  .object({
    replicas: z
      .int()
      .min(1)
      .max(3)
      .default(1)
      .meta(rules({ rule: 'self != 2', message: 'must be 1 or 3: two members survive no failure' }))
      .describe('1, or 3 to survive the loss of one member.'),
    storage: etcdStorage
      .default({ emptyDir: {} })
      .describe('Where members keep their data. Nothing is lost for good with it.'),
  })
  .meta(
    rules({
      rule: 'self == oldSelf',
      message:
        'the members of a store cannot be changed in place; give other endpoints, or make another StorageCluster',
      reason: 'FieldValueForbidden',
    }),
  );

const store = z
  .object({
    etcd: etcd.optional().describe('An etcd that the operator runs.'),
    endpoints: z
      .array(
        z
          .string()
          .max(280)
          .regex(/^https?:\/\/([A-Za-z0-9.-]{1,253}|\[[0-9a-fA-F:]{2,45}\]):[0-9]{1,5}$/),
      )
      .min(1)
      .max(9)
      .optional()
      .meta({
        ...asSet,
        ...rules({
          rule: "self.all(one, one.startsWith('https:')) || self.all(one, one.startsWith('http:'))",
          message: 'all endpoints must be https, or all http',
        }),
      })
      .describe('Client addresses of an etcd that somebody else runs, such as https://10.0.0.1:2379.'),
    secretRef: reference(
      "Secret in the operator's namespace with tls.crt, tls.key and ca.crt for the endpoints.",
    ).optional(),
  })
  .meta(
    rules(
      {
        rule: 'has(self.etcd) != has(self.endpoints)',
        message: 'exactly one of etcd and endpoints must be given',
      },
      {
        rule: '!has(self.secretRef) || has(self.endpoints)',
        message: 'secretRef belongs to endpoints; certificates of an etcd of our own are made by the operator',
        fieldPath: '.secretRef',
      },
    ),
  );

const origins = z.object({
  directoryPrefixes: z
    .array(absolutePath())
    .max(64)
    .default([])
    .meta(asSet)
    .describe('Folders of the nodes below which directory sources may lie. None: no directory sources.'),
  allowedNetworks: z
    .array(network())
    .max(64)
    .default([])
    .meta(asSet)
    .describe('Loopback, link-local and private networks in which origins are accepted, such as 10.0.0.0/8.'),
  certificateAuthorities: z
    .object({
      name: objectName().describe("Name of the ConfigMap, in the operator's namespace."),
      key: z
        .string()
        .min(1)
        .max(253)
        .regex(/^[-._a-zA-Z0-9]+$/)
        .default('ca.crt')
        .describe('Its key with the PEM text.'),
    })
    .optional()
    .describe("ConfigMap with the authorities of https origins. Absent: the image's."),
});

export const storageClusterSpecSchema = z.object({
  nodeGroups: z
    .array(nodeGroup)
    .min(1)
    .max(16)
    .meta(keyedBy('name'))
    .describe('Nodes that keep bytes, grouped by what is the same on them.'),
  store: store.default({ etcd: { replicas: 1, storage: { emptyDir: {} } } }).describe('Where agents find one another.'),
  origins: origins
    .default({ directoryPrefixes: [], allowedNetworks: [] })
    .describe('What the sources of Datasets may reach.'),
  startupTaint: z
    .object({
      enabled: z.boolean().default(true).describe('Whether the operator takes the taint away.'),
      timeout: duration('10s', '24h').default('10m').describe('After this the taint goes although no agent is ready.'),
    })
    .default({ enabled: true, timeout: '10m' })
    .describe(
      'Nodes may be registered with the taint hearth.storage/agent-not-ready:NoSchedule; it goes when their agent is ready.',
    ),
  agentAbsence: duration('1m', '24h')
    .default('15m')
    .describe('Readers of a mount without an agent wait this long; then the mount is aborted and they get errors.'),
  logLevel: z.enum(['debug', 'info', 'warn', 'error']).default('info').describe('Least important messages of agents.'),
  image: z
    .string()
    .min(1)
    .max(512)
    .regex(/^[A-Za-z0-9][-A-Za-z0-9._/:@]*$/)
    .optional()
    .describe("Image of the pods on nodes. Absent: the operator's own."),
});

const nodeState = z.object({
  name: objectName().describe('Name of the node.'),
  group: labelName(40).describe('Its node group.'),
  ready: z.boolean().describe('Whether its agent serves.'),
  reason: z.string().max(128).describe('One word for programs when it does not.'),
  message: z.string().max(1024).describe('A sentence for people.'),
});

export const storageClusterStatusSchema = z.object({
  observedGeneration: observedGeneration().optional(),
  conditions: conditionsSchema().optional(),
  nodesDesired: count().optional().describe('Nodes that the node groups select.'),
  nodesReady: count().optional().describe('Nodes whose agent serves.'),
  capacityBytes: count().optional().describe('Budgets of all ready agents together.'),
  usedBytes: count().optional().describe('Bytes in the caches of all ready agents.'),
  datasets: count().optional().describe('Datasets of this cluster.'),
  nodes: z
    .array(nodeState)
    .max(500)
    .optional()
    .meta(keyedBy('name'))
    .describe('Each node, those that are not ready first. At most 500 are listed; the numbers above count all.'),
  store: z
    .object({
      ready: z.boolean().describe('Whether the store answers.'),
      endpoints: z.array(z.string().max(280)).max(9).meta(asList).describe('Where agents reach it.'),
    })
    .optional()
    .describe('The store.'),
});

export type StorageClusterSpec = z.output<typeof storageClusterSpecSchema>;
export type StorageClusterStatus = z.output<typeof storageClusterStatusSchema>;
export type NodeGroup = z.output<typeof nodeGroup>;
export type CacheDirectory = z.output<typeof cacheDirectory>;
export type NodeState = z.output<typeof nodeState>;

/** As the API server gives it: defaults are filled in. */
export interface StorageCluster {
  apiVersion: 'hearth.storage/v1alpha1';
  kind: 'StorageCluster';
  metadata: ObjectMeta;
  spec: StorageClusterSpec;
  status?: StorageClusterStatus;
}
