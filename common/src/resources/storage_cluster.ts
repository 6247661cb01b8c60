import { z } from 'zod';
import { store } from './cluster_store.ts';
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
  rules,
} from './fields.ts';
import { conditionsSchema, type ObjectMeta, observedGeneration } from './metadata.ts';
import { nodeGroup } from './node_group.ts';

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
  nodeIdentity: z
    .object({
      namespaces: z
        .array(labelName())
        .max(256)
        .default([])
        .meta(asSet)
        .describe(
          'Namespaces whose Datasets without secretRef read with the own cloud identity of the nodes (instance role, ' +
            'workload identity): whoever may make Datasets there reads all that nodes may. None: they read anonymously.',
        ),
    })
    .default({ namespaces: [] })
    .describe('Who may read origins as the nodes themselves.'),
  maxEntries: z
    .int()
    .min(1)
    .max(100_000_000)
    .default(2_000_000)
    .describe(
      'Files and folders that one Dataset may have. Listing them takes an agent about 360 bytes of memory each, and the ' +
        'bytes of their paths, of which 256 are allowed for each.',
    ),
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

const joinPolicy = z
  .object({
    name: labelName(40).describe('Name of the policy.'),
    nodeSelector: z
      .record(z.string(), z.string().max(63))
      .default({})
      .meta({ maxProperties: 16 })
      .describe('Labels of the nodes that it is for; none: all nodes.'),
    datasets: z
      .array(
        z.object({
          namespace: labelName().describe('Namespace of the Dataset.'),
          name: objectName(63).describe('Its name.'),
        }),
      )
      .max(64)
      .default([])
      .meta(keyedBy('namespace', 'name'))
      .describe('Datasets that the node must hold.'),
    mostUsed: z
      .int()
      .min(0)
      .max(64)
      .default(0)
      .describe('This many of the Datasets that were used last and most often, as far as they fit into its budget.'),
  })
  .meta(
    rules({
      rule: 'self.datasets.size() > 0 || self.mostUsed > 0',
      message: 'names no datasets: give datasets, or mostUsed',
    }),
  );

export const storageClusterSpecSchema = z.object({
  nodeGroups: z
    .array(nodeGroup)
    .min(1)
    .max(16)
    .meta(keyedBy('name'))
    .describe('Nodes that keep bytes, grouped by what is the same on them.'),
  store: store.default({ etcd: { replicas: 1, storage: { emptyDir: {} } } }).describe('Where agents find one another.'),
  origins: origins
    .default({
      directoryPrefixes: [],
      allowedNetworks: [],
      nodeIdentity: { namespaces: [] },
      maxEntries: 2_000_000,
    })
    .describe('What the sources of Datasets may reach.'),
  startupTaint: z
    .object({
      enabled: z.boolean().default(true).describe('Whether the operator removes the taint.'),
      timeout: duration('10s', '24h').default('10m').describe('After this the taint goes although no agent is ready.'),
    })
    .default({ enabled: true, timeout: '10m' })
    .describe(
      'Nodes may be registered with the taint hearth.storage/agent-not-ready:NoSchedule; it goes when their agent is ready.',
    ),
  joinPolicies: z
    .array(joinPolicy)
    .max(16)
    .default([])
    .meta(keyedBy('name'))
    .describe(
      'What a node that was registered with the startup taint must hold before the taint goes. It gets the bytes from ' +
        "other nodes where these have them. The taint's timeout ends the waiting.",
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
    .describe("Image of the pods on nodes, of the operator's release or a later one. Absent: the operator's own."),
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
  nodesDesired: count()
    .optional()
    .describe('Nodes that the node groups select and that are ready themselves: as many agents should serve now.'),
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
export type NodeState = z.output<typeof nodeState>;

/** As the API server gives it: defaults are filled in. */
export interface StorageCluster {
  apiVersion: 'hearth.storage/v1alpha1';
  kind: 'StorageCluster';
  metadata: ObjectMeta;
  spec: StorageClusterSpec;
  status?: StorageClusterStatus;
}
