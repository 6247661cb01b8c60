import { z } from 'zod';

/** Key prefix of agent records; the agent's name follows. */
export const nodePrefix = 'nodes/';

const text = z.string().max(1024);

/**
 * An agent's record of itself, as JSON under `nodes/NAME`, bound to its lease. Readers ignore unknown fields, which a
 * newer agent may have written.
 */
export const nodeRecord = z.object({
  /** Unique in the cluster; a Kubernetes node name fits. */
  node: z
    .string()
    .max(253)
    .regex(/^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$/, 'letters, digits, dots, underscores and hyphens only'),
  /** Different at every start of the agent. */
  incarnation: text.min(1),
  /**
   * Equal for all starts of one installation and for nothing else: two agents with the same value cannot run at once.
   * Such a successor takes the name over at once; others wait until the predecessor's lease has expired. Empty when
   * nothing guarantees uniqueness, as while the cache is unusable.
   */
  installation: text.default(''),
  /** Addresses of the wire protocol, one for each network interface; empty while the agent has no cache. */
  wire: z.array(z.object({ host: z.string().min(1).max(253), port: z.int().min(1).max(65535) })).max(64),
  /** Reachable addresses of the control API and of health; empty when other agents cannot reach them. */
  control: text.default(''),
  health: text.default(''),
  /** Unix socket of the control API, for agents of the same machine; empty: they cannot open it. */
  socket: text.default(''),
  zone: text.default(''),
  rack: text.default(''),
  version: text.default(''),
  /** Version of the control API. Releases without this field have version 1 and no features. */
  apiVersion: z.int().min(0).default(1),
  apiFeatures: z.array(text).max(256).default([]),
  /** Only ready agents serve as key directories and sources of bytes. */
  ready: z.boolean(),
  /** Reason why the agent is not ready; empty when ready. */
  reason: text.default(''),
});

export type NodeRecord = z.output<typeof nodeRecord>;
