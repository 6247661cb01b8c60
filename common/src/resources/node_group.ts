import { z } from 'zod';
import {
  absolutePath,
  asList,
  asSet,
  keyedBy,
  labelName,
  network,
  objectName,
  quantity,
  rate,
  rules,
  share,
  size,
} from './fields.ts';

/** Folders where a cache would harm the node: system folders, and folders whose mounts come and go. */
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

/** Larger than any disk, and small enough that sums of sizes stay exact numbers. */
const noLargerThanDisks = "quantity(self).compareTo(quantity('1Pi')) <= 0";

export const cacheDirectory = z
  .object({
    path: absolutePath({
      rule: `![${systemFolders.map((folder) => `'${folder}'`).join(', ')}].exists(taken, self == taken || self.startsWith(taken + '/') || taken.startsWith(self + '/'))`,
      message: 'must be neither inside a system folder of the node nor contain one',
    }).describe('Folder on the node; the agent creates a missing one. List one folder for each disk to use.'),
    budget: share(1, 100, {
      rule: `self.endsWith('%') || (quantity(self).compareTo(quantity('64Mi')) >= 0 && ${noLargerThanDisks})`,
      message: 'must be a size from 64Mi to 1Pi, or a share such as 70%',
    })
      .default('70%')
      .describe('Maximum bytes to keep there: a share of the file system, or a size. A hard limit.'),
    freeFloor: share(0, 99, {
      rule: `self.endsWith('%') || ${noLargerThanDisks}`,
      message: 'must be a size of at most 1Pi, or a share such as 20%',
    })
      .default('20%')
      .describe(
        'Bytes of the file system to leave free, which limit the budget: a share, or a size. ' +
          "On the kubelet's file system at least 20%, or the kubelet collects images and evicts pods.",
      ),
  })
  .meta(
    rules({
      rule: "!(self.budget.endsWith('%') && self.freeFloor.endsWith('%')) || int(self.budget.replace('%', '')) + int(self.freeFloor.replace('%', '')) <= 100",
      message: 'budget and freeFloor (20% when it is not given) must not exceed 100% together',
      fieldPath: '.budget',
    }),
  );

const engine = z
  .object({
    shards: z.int().min(0).max(256).default(0).describe('Threads that own files; 0 chooses by the number of cores.'),
    originConnections: z
      .int()
      .min(1)
      .max(1024)
      .default(32)
      .describe('Maximum parallel requests of one agent to origins.'),
    buffer: size()
      .default('256Mi')
      .meta(
        rules({
          rule: "quantity(self).compareTo(quantity('32Mi')) >= 0 && quantity(self).compareTo(quantity('64Gi')) <= 0",
          message: 'must be a size from 32Mi to 64Gi',
        }),
      )
      .describe(
        'Memory of one agent for chunks: fetched bytes land there before they are written. The pods of mount holders request ' +
          'it, take it when an agent starts and keep it for the next agent: after a change, delete them one by one.',
      ),
    memory: size()
      .default('0')
      .meta(
        rules({
          rule: "quantity(self).compareTo(quantity('16Ti')) <= 0",
          message: 'must be a size of at most 16Ti',
        }),
      )
      .describe(
        'Memory of one node for whole files: warm jobs copy files there, and pods read them at memory speed. The pods of mount ' +
          'holders request it and keep it for the next agent: after a change, delete them one by one. 0: none.',
      ),
    hugePages: z
      .enum(['2Mi', '1Gi'])
      .optional()
      .describe(
        'Huge pages for the buffer, which the nodes must reserve: pods of mount holders request them as hugepages-2Mi or ' +
          'hugepages-1Gi. Absent: ordinary pages, of which the kernel makes pages of 2 MiB where it can.',
      ),
    scrubRate: size()
      .default('20Mi')
      .meta(
        rules({
          rule: "quantity(self).compareTo(quantity('0')) == 0 || (quantity(self).compareTo(quantity('64Ki')) >= 0 && quantity(self).compareTo(quantity('64Gi')) <= 0)",
          message: 'must be a size from 64Ki to 64Gi, or 0',
        }),
      )
      .describe(
        'Bytes a second of each cache directory that the background scrub compares with their checksums; 0 turns it off.',
      ),
  })
  .meta(
    rules({
      rule: "!has(self.hugePages) || self.hugePages != '1Gi' || quantity(self.buffer).compareTo(quantity('1Gi')) >= 0",
      message: 'must be at least 1Gi with hugePages 1Gi',
      fieldPath: '.buffer',
    }),
  );

const noMoreThanLinksCarry = {
  rule: "quantity(self).compareTo(quantity('1Ti')) <= 0",
  message: 'must be at most 1Ti, bytes a second',
};

/** A limit on a resource that the node shares with other workloads. */
const bandwidth = () =>
  z
    .object({
      total: rate(noMoreThanLinksCarry)
        .optional()
        .describe(
          'Maximum bytes a second of all transfers together; bytes that readers wait for go first. Absent: no limit.',
        ),
      warm: rate(noMoreThanLinksCarry)
        .optional()
        .describe(
          'Maximum bytes a second of background work: warm jobs, reading ahead, repair, verification, writing to the ' +
            'cache. Absent: as much as total leaves.',
        ),
    })
    .meta(
      rules(
        {
          rule: 'has(self.total) || has(self.warm)',
          message: 'total or warm must be given; omit the limit for none',
        },
        {
          rule: '!has(self.total) || !has(self.warm) || quantity(self.warm).compareTo(quantity(self.total)) <= 0',
          message: 'must not be more than total',
          fieldPath: '.warm',
        },
      ),
    )
    .optional();

const limits = z
  .object({
    origin: bandwidth().describe('Limits of reads of each node from origins.'),
    peers: bandwidth().describe(
      'Limits of bytes of files that each node receives from other nodes, and separately of bytes that it sends to them. ' +
        'Control messages are not limited.',
    ),
    disk: bandwidth().describe(
      'Limits of writes and reads of each agent in all its cache directories together. Reads of the kernel for ' +
        'pods by itself, from views and complete files, are not limited.',
    ),
  })
  .describe('Limits of each node on resources that it shares with others. Absent: no limits.');

const rdma = z
  .object({
    use: z
      .enum(['auto', 'required'])
      .default('auto')
      .describe(
        'auto: by RDMA where two nodes can, over TCP where not. required: an agent without a port does not become ready; when ' +
          'a port fails later, reads go on over TCP.',
      ),
    devices: z
      .array(
        z
          .string()
          .min(1)
          .max(66)
          .regex(/^[A-Za-z0-9_.*?[\]!^-]{1,64}(\/[0-9])?$/),
      )
      .max(16)
      .default([])
      .meta(asSet)
      .describe(
        'Devices, such as mlx5_0, or their ports, such as mlx5_0/1, that may be used; * stands for any. None: all.',
      ),
    resource: z
      .string()
      .min(1)
      .max(316)
      .regex(/^[a-z0-9]([-a-z0-9.]*[a-z0-9])?\/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$/)
      .optional()
      .describe(
        'Resource of a device plug-in, such as rdma/hca_shared_devices_a: each agent gets one, and only nodes that ' +
          "have it run one. Absent: the device files in the node's /dev/infiniband.",
      ),
  })
  .describe(
    'Reads of the nodes from each other by RDMA. Absent: over TCP alone. The memory for chunks (engine.buffer) is pinned, ' +
      'which the capability IPC_LOCK of the agents allows.',
  );

const resources = z.object({
  requests: z
    .record(z.string(), quantity())
    .optional()
    .meta({ maxProperties: 16 })
    .describe('Requested resources of the agent.'),
  limits: z
    .record(z.string(), quantity())
    .optional()
    .meta({ maxProperties: 16 })
    .describe(
      'Maximum resources of the agent. Absent: 6.25Gi of memory, as much as the buffer, and 128Mi for each TiB of the budgets ' +
        '(1Gi for one that is a share), and more with origins.maxEntries above ten million; {}: no limit.',
    ),
});

const labelKey = () => z.string().min(1).max(317);
const labelValue = () => z.string().max(63);

const nodeAffinity = z
  .object({
    requiredDuringSchedulingIgnoredDuringExecution: z
      .object({
        nodeSelectorTerms: z
          .array(
            z.object({
              matchExpressions: z
                .array(
                  z
                    .object({
                      key: labelKey().describe('Name of the label.'),
                      operator: z
                        .enum(['In', 'NotIn', 'Exists', 'DoesNotExist', 'Gt', 'Lt'])
                        .describe('Comparison of the label with the values.'),
                      values: z
                        .array(labelValue())
                        .max(64)
                        .default([])
                        .meta(asList)
                        .describe(
                          'Values to compare with: none with Exists and DoesNotExist, one number with Gt and Lt.',
                        ),
                    })
                    .meta(
                      rules(
                        {
                          rule: "!(self.operator in ['In', 'NotIn']) || self.values.size() > 0",
                          message: 'In and NotIn need values',
                        },
                        {
                          rule: "!(self.operator in ['Exists', 'DoesNotExist']) || self.values.size() == 0",
                          message: 'Exists and DoesNotExist take no values',
                        },
                        {
                          rule: "!(self.operator in ['Gt', 'Lt']) || (self.values.size() == 1 && self.values[0].matches('^-?[0-9]{1,18}$'))",
                          message: 'Gt and Lt need one number',
                        },
                      ),
                    ),
                )
                .min(1)
                .max(16)
                .meta(asList)
                .describe('Conditions on the labels of a node; all must hold.'),
            }),
          )
          .min(1)
          .max(8)
          .meta(asList)
          .describe('Alternatives: one of the terms must match.'),
      })
      .describe('Conditions on the labels of nodes, written as in a pod.'),
  })
  .describe('Selects the nodes of the group.');

const toleration = z
  .object({
    key: labelKey().optional().describe('Key of the taint. Absent: every taint, with the operator Exists.'),
    operator: z.enum(['Exists', 'Equal']).default('Equal').describe('Equal compares the value; Exists ignores it.'),
    value: labelValue().optional().describe('Value of the taint, with the operator Equal. Absent: the empty one.'),
    effect: z
      .enum(['NoSchedule', 'PreferNoSchedule', 'NoExecute'])
      .optional()
      .describe('Effect of the taint. Absent: every effect.'),
  })
  .meta(
    rules(
      { rule: "has(self.key) || self.operator == 'Exists'", message: 'without a key the operator must be Exists' },
      { rule: "!has(self.value) || self.operator == 'Equal'", message: 'Exists takes no value' },
    ),
  );

export const nodeGroup = z.object({
  name: labelName(40).describe('Name of the group.'),
  nodeSelector: z
    .record(z.string(), z.string().max(63))
    .default({})
    .meta({ maxProperties: 16 })
    .describe('Labels of the nodes in this group; none: all nodes. A node belongs to one group of one cluster.'),
  affinity: z
    .object({ nodeAffinity })
    .optional()
    .describe('Further conditions on the labels of the nodes in this group, written as in a pod.'),
  tolerations: z
    .array(toleration)
    .max(32)
    .meta(asList)
    .optional()
    .describe(
      'Taints that nodes in this group may have: a node with any other taint is not in it. Absent: all taints but those of ' +
        'control planes and of virtual nodes.',
    ),
  cacheDirectories: z
    .array(cacheDirectory)
    .min(1)
    .max(16)
    .meta({
      ...keyedBy('path'),
      ...rules({
        rule: "self.all(one, !self.exists(other, one.path.startsWith(other.path + '/')))",
        message: 'a cache directory must not be inside another one',
      }),
    })
    .describe('Folders that keep bytes on each node.'),
  networks: z
    .array(network())
    .max(16)
    .default([])
    .meta(asSet)
    .describe(
      "Networks, such as 10.1.0.0/16, whose addresses on the node carry data between agents. None: the node's InternalIP.",
    ),
  engine: engine
    .default({ shards: 0, originConnections: 32, buffer: '256Mi', memory: '0', scrubRate: '20Mi' })
    .describe('Settings of the data path.'),
  limits: limits.optional(),
  rdma: rdma.optional(),
  resources: resources.optional().describe('Resources of the agent pods.'),
  priorityClassName: objectName()
    .default('system-node-critical')
    .describe(
      'Priority class of the pods on nodes. With the default the kubelet keeps them when a node runs short of memory.',
    ),
});

export type NodeGroup = z.output<typeof nodeGroup>;
export type CacheDirectory = z.output<typeof cacheDirectory>;
