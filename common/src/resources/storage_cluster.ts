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
  sum,
} from './fields.ts';
import { conditionsSchema, type ObjectMeta, observedGeneration } from './metadata.ts';
import { nodeGroup } from './node_group.ts';

const clients = z.object({
  adviseNamespaces: z
    .array(labelName())
    .max(256)
    .default([])
    .meta(asSet)
    .describe(
      'Namespaces whose pods may have the right advise: they fill the cache of their node ahead, and let go of files there.',
    ),
  adviseClusterNamespaces: z
    .array(labelName())
    .max(256)
    .default([])
    .meta(asSet)
    .describe('Namespaces whose pods may have the right advise-cluster: the same for all nodes.'),
});

const origins = z.object({
  directoryPrefixes: z
    .array(absolutePath())
    .max(64)
    .default([])
    .meta(asSet)
    .describe('Folders of the nodes that may contain directory sources. None: no directory sources.'),
  allowedNetworks: z
    .array(network())
    .max(64)
    .default([])
    .meta(asSet)
    .describe('Loopback, link-local and private networks that may contain origins, such as 10.0.0.0/8.'),
  nodeIdentity: z
    .object({
      namespaces: z
        .array(labelName())
        .max(256)
        .default([])
        .meta(asSet)
        .describe(
          'Namespaces whose Datasets without secretRef read with the cloud identity of the nodes (instance role, workload ' +
            'identity): a user who may create Datasets there can read everything that the nodes can. None: such Datasets ' +
            'read anonymously.',
        ),
    })
    .default({ namespaces: [] })
    .describe('Namespaces that may read origins with the identity of the nodes.'),
  maxEntries: z
    .int()
    .min(1)
    .max(100_000_000)
    .default(2_000_000)
    .describe(
      'Maximum files and folders of one Dataset. Listing takes an agent about 360 bytes of memory for each, and the bytes ' +
        'of their paths, on average at most 256 for each.',
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
        .describe('Key of the PEM text in the ConfigMap.'),
    })
    .optional()
    .describe('ConfigMap with the certificate authorities of https origins. Absent: the authorities of the image.'),
});

const joinPolicy = z
  .object({
    name: labelName(40).describe('Name of the policy.'),
    nodeSelector: z
      .record(z.string(), z.string().max(63))
      .default({})
      .meta({ maxProperties: 16 })
      .describe('Labels of the nodes under the policy; none: all nodes.'),
    datasets: z
      .array(
        z.object({
          namespace: labelName().describe('Namespace of the Dataset.'),
          name: objectName(63).describe('Name of the Dataset.'),
        }),
      )
      .max(64)
      .default([])
      .meta(keyedBy('namespace', 'name'))
      .describe('Datasets that a joining node must hold.'),
    mostUsed: z
      .int()
      .min(0)
      .max(64)
      .default(0)
      .describe(
        'Number of recently and frequently used Datasets that a joining node must hold, as far as they fit into its budget.',
      ),
  })
  .meta(
    rules({
      rule: 'self.datasets.size() > 0 || self.mostUsed > 0',
      message: 'datasets or mostUsed must be given',
    }),
  );

export const storageClusterSpecSchema = z.object({
  nodeGroups: z
    .array(nodeGroup)
    .min(1)
    .max(16)
    .meta(keyedBy('name'))
    .describe('Groups of nodes that keep bytes, each with common settings.'),
  store: store
    .default({ etcd: { replicas: 1, storage: { emptyDir: {} } } })
    .describe('The store in which agents find each other.'),
  origins: origins
    .default({
      directoryPrefixes: [],
      allowedNetworks: [],
      nodeIdentity: { namespaces: [] },
      maxEntries: 2_000_000,
    })
    .describe('Limits on the sources of Datasets.'),
  clients: clients
    .default({ adviseNamespaces: [], adviseClusterNamespaces: [] })
    .describe('What pods with clientAccess may do beyond reading.'),
  startupTaint: z
    .object({
      enabled: z.boolean().default(true).describe('Makes the operator remove the taint.'),
      timeout: duration('10s', '24h')
        .default('10m')
        .describe('Time after which the operator removes the taint although no agent is ready.'),
    })
    .default({ enabled: true, timeout: '10m' })
    .describe(
      'Nodes may register with the taint hearth.storage/agent-not-ready:NoSchedule; the operator removes it when their agent is ready.',
    ),
  joinPolicies: z
    .array(joinPolicy)
    .max(16)
    .default([])
    .meta(keyedBy('name'))
    .describe(
      'Datasets that a node registered with the startup taint must hold before the operator removes the taint. The node gets ' +
        "the bytes from other nodes that have them. The taint's timeout ends the wait.",
    ),
  agentAbsence: duration('1m', '24h')
    .default('15m')
    .describe(
      'Time that readers of a mount wait for a missing agent. Then the holder aborts the mount, and the readers get errors.',
    ),
  logLevel: z
    .enum(['debug', 'info', 'warn', 'error'])
    .default('info')
    .describe('Lowest level of messages that agents log.'),
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
  group: labelName(40).describe('Node group of the node.'),
  ready: z.boolean().describe('True when the agent of the node serves.'),
  reason: z.string().max(128).describe('Reason why the agent does not serve, one word for programs.'),
  message: z.string().max(1024).describe('Explanation for people.'),
});

export const storageClusterStatusSchema = z.object({
  observedGeneration: observedGeneration().optional(),
  conditions: conditionsSchema().optional(),
  nodesDesired: count()
    .optional()
    .describe('Number of ready nodes that the node groups select: the number of agents that should serve now.'),
  nodesReady: count().optional().describe('Number of nodes whose agent serves.'),
  capacityBytes: sum().optional().describe('Sum of the budgets of all ready agents.'),
  usedBytes: sum().optional().describe('Bytes in the caches of all ready agents together.'),
  datasets: count().optional().describe('Number of Datasets of this cluster.'),
  nodes: z
    .array(nodeState)
    .max(500)
    .optional()
    .meta(keyedBy('name'))
    .describe('Nodes, those without a serving agent first, at most 500. The numbers above count all nodes.'),
  store: z
    .object({
      ready: z.boolean().describe('True when the store answers.'),
      endpoints: z
        .array(z.string().max(280))
        .max(9)
        .meta(asList)
        .describe('Addresses at which agents reach the store.'),
    })
    .optional()
    .describe('State of the store.'),
});

export type StorageClusterSpec = z.output<typeof storageClusterSpecSchema>;
export type StorageClusterStatus = z.output<typeof storageClusterStatusSchema>;
export type NodeState = z.output<typeof nodeState>;

/** A StorageCluster as the API server returns it, with defaults. */
export interface StorageCluster {
  apiVersion: 'hearth.storage/v1alpha1';
  kind: 'StorageCluster';
  metadata: ObjectMeta;
  spec: StorageClusterSpec;
  status?: StorageClusterStatus;
}
