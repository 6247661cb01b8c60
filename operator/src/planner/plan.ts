export type GroupPlan =
  | WarmPlan
  /** Waiting would not help, so the pods start at once, unchanged. */
  | { kind: 'release'; reason: ReleaseReason; message: string };

export type ReleaseReason =
  /** No node could ever take a pod of the group, though an autoscaler may add one. */
  | 'NoFeasibleNode'
  /** Nodes could take the pods, but not the bytes. */
  | 'NoRoom'
  /** Nodes could take the pods, but have no agent. */
  | 'NoAgent';

export interface WarmPlan {
  kind: 'warm';
  /** Nodes that should hold the bytes, in warming order. */
  nodes: readonly NodePlan[];
  /** The expected node of each pod. Pods that fit nowhere now are absent, but released with the others. */
  assignment: ReadonlyMap<string, string>;
  affinity: AffinityPlan;
  message: string;
}

export type NodePlan = { node: string; missingBytes: Readonly<Record<string, number>> };

/** The same for every pod of a group. Names are values of the label kubernetes.io/hostname. */
export interface AffinityPlan {
  kind: 'Preferred' | 'Required';
  /** Required: every node that holds the bytes. Preferred (weight 100): the planned nodes. */
  hostnames: readonly string[];
  /** Required: the planned nodes, which pods prefer (weight 100), since other nodes may hold only enough bytes. */
  preferredHostnames?: readonly string[];
  /** Why the plan gives Preferred instead of Required. */
  reason?: string;
}
