import type { GateMode } from '@hearth/common/resources';
import type { Expression, Taint, Toleration } from '../kubernetes/index.ts';

export type { Expression, Taint, Toleration };

/**
 * Plain values, so that a recorded input reproduces a plan. Resources are integers in scheduler units: millicores of
 * `cpu`, bytes of `memory`, counts of all others (`nvidia.com/gpu`, `pods`). Amounts of data are bytes.
 */
export interface PlanInput {
  /** Every node of the Kubernetes cluster, with or without an agent. */
  nodes: readonly PlannedNode[];
  running: readonly RunningPod[];
  groups: readonly PodGroup[];
  datasets: ReadonlyMap<string, PlannedDataset>;
}

export type Amounts = Readonly<Record<string, number>>;

export interface PlannedNode {
  name: string;
  labels: Readonly<Record<string, string>>;
  taints: readonly Taint[];
  unschedulable: boolean;
  allocatable: Amounts;
  /** Absent when no agent serves on the node. */
  agent?: {
    /** Bytes that its caches may take beside present pins. */
    availableBytes: number;
    residentBytes: Readonly<Record<string, number>>;
    /**
     * Pinned bytes, resident or not, which `availableBytes` excludes. Absent: equal to `residentBytes`. Both maps are
     * keyed by dataset key.
     */
    pinnedBytes?: Readonly<Record<string, number>> | undefined;
  };
}

export interface RunningPod {
  namespace: string;
  labels: Readonly<Record<string, string>>;
  node: string;
  requests: Amounts;
  hostPorts: readonly HostPort[];
  /** Has a deletionTimestamp; topology spread ignores the pod. */
  deleting: boolean;
  /** A pod of a DaemonSet or a static pod, whose room no other pod can have. */
  lasting?: boolean | undefined;
  repels?: readonly Repulsion[] | undefined;
}

/** Matching pods of these namespaces cannot run on nodes with the same `topologyKey` label as the pod's node. */
export interface Repulsion {
  topologyKey: string;
  namespaces?: readonly string[] | undefined;
  selector: LabelSelector | undefined;
}

export type HostPort = { ip: string; protocol: string; port: number };

/** Pods of one template, such as the pods of one owner. */
export interface PodGroup {
  /** 'namespace/name' of the CachePreload. */
  key: string;
  namespace: string;
  labels: Readonly<Record<string, string>>;
  pods: readonly string[];
  /** Of one pod, without `pods`. */
  requests: Amounts;
  hostPorts: readonly HostPort[];
  nodeSelector: Readonly<Record<string, string>>;
  /** Required node affinity: alternatives. */
  requiredTerms: readonly NodeSelectorTerm[] | undefined;
  preferredTerms: readonly { weight: number; term: NodeSelectorTerm }[];
  tolerations: readonly Toleration[];
  spread: readonly TopologySpread[];
  /** Features that the planner does not model, for people; such pods never get required affinity. */
  unmodelled: readonly string[];
  /** Keys of `PlanInput.datasets`; unknown ones count as empty. */
  datasets: readonly string[];
  mode: Exclude<GateMode, 'Off'>;
  minPercent: number;
  affinity: 'Preferred' | 'Required';
  /** Nodes of the present plan, kept while pods can still run there. */
  planned: readonly string[];
}

export interface NodeSelectorTerm {
  matchExpressions: readonly Expression[];
  /** Only `metadata.name`. */
  matchFields: readonly Expression[];
}

export interface TopologySpread {
  topologyKey: string;
  maxSkew: number;
  minDomains: number | undefined;
  hard: boolean;
  selector: LabelSelector | undefined;
  matchLabelKeys: readonly string[];
  honorAffinity: boolean;
  honorTaints: boolean;
}

export interface LabelSelector {
  matchLabels: Readonly<Record<string, string>>;
  matchExpressions: readonly Expression[];
}

export type PlannedDataset = { bytes: number };
