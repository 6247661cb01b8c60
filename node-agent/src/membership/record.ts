import { z } from 'zod';

/** Key prefix of the records of agents; what follows is the agent's name. */
export const nodePrefix = 'nodes/';

const text = z.string().max(1024);

/**
 * An agent's record of itself, as JSON under `nodes/NAME`, bound to its lease. Readers ignore unnamed fields: a newer
 * agent may have written them.
 */
export const nodeRecord = z.object({
  /** Unique in the cluster; a Kubernetes node name fits. */
  node: z
    .string()
    .max(253)
    .regex(/^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$/, 'letters, digits, dots, underscores and hyphens only'),
  /** Another one with every start of the agent. */
  incarnation: text.min(1),
  /**
   * The same for all starts of one installation, and only for them: two agents that give the same one cannot run at the
   * same time. Such a successor takes the name over at once; others wait until the predecessor's lease has ended.
   * Empty when there is nothing that could vouch for it, as while its cache cannot be used.
   */
  installation: text.default(''),
  /** Where the wire protocol is served, one for each network interface; none while the agent has no cache. */
  wire: z.array(z.object({ host: z.string().min(1).max(253), port: z.int().min(1).max(65535) })).max(64),
  /** Addresses of the control API and of health, as others reach them; empty when they cannot. */
  control: text.default(''),
  health: text.default(''),
  zone: text.default(''),
  rack: text.default(''),
  version: text.default(''),
  /** Of its control API. Releases that do not write it have version 1 without features. */
  apiVersion: z.int().min(0).default(1),
  apiFeatures: z.array(text).max(256).default([]),
  /** Only ready agents are directories of keys and sources of bytes. */
  ready: z.boolean(),
  /** Why it is not ready; empty when it is. */
  reason: text.default(''),
});

export type NodeRecord = z.output<typeof nodeRecord>;
