/** The decision on one group. */
export type GroupPlan =
  | WarmPlan
  /** Nothing that waiting could mend: the pods are released at once, unchanged. */
  | { kind: 'release'; reason: ReleaseReason; message: string };

export type ReleaseReason =
  /** No node of the cluster could take a pod of the group; perhaps an autoscaler brings one. */
  | 'NoFeasibleNode'
  /** Nodes could take the pods, but the bytes fit on none of them. */
  | 'NoRoom'
  /** Nodes could take the pods, but no agent serves there. */
  | 'NoAgent';

export interface WarmPlan {
  kind: 'warm';
  /** Nodes that are to hold the bytes, in the order in which they are warmed. */
  nodes: readonly NodePlan[];
  /** By pod: the node that the plan expects it on. Pods that fit nowhere now are absent; they are released with the rest. */
  assignment: ReadonlyMap<string, string>;
  affinity: AffinityPlan;
  /** A sentence for people: why these nodes. */
  message: string;
}

export interface NodePlan {
  node: string;
  /** By dataset key: bytes that are missing there. */
  missingBytes: Readonly<Record<string, number>>;
}

/** Every pod of a group gets the same. Names are values of the label kubernetes.io/hostname. */
export interface AffinityPlan {
  kind: 'Preferred' | 'Required';
  /** Required: every node that holds the bytes, not only those of the plan. Preferred (weight 100): those of the plan. */
  hostnames: readonly string[];
  /** Required: those of the plan. The pods wish for them (weight 100), as others hold enough but perhaps not everything. */
  wished?: readonly string[];
  /** Why Required was asked and is not given. */
  reason?: string;
}
