import type { GateMode } from '@hearth/common/resources';
import type { Expression, Taint, Toleration } from '../kubernetes/index.ts';

export type { Expression, Taint, Toleration };

/**
 * The planner's knowledge: plain values, so that a plan can be made again from a record. Amounts of resources are
 * integers in the unit that Kubernetes counts them in: millicores of `cpu`, bytes of `memory`, pieces of everything
 * else (`nvidia.com/gpu`, `pods`). Amounts of data are bytes.
 */
export interface PlanInput {
  /** Every node of the Kubernetes cluster, those without an agent too: pods run there as well. */
  nodes: readonly PlannedNode[];
  /** Pods that are bound to a node and have not ended, and pods that an earlier plan expects on one. */
  running: readonly RunningPod[];
  /** Gated pods, planned together group by group, in the order in which they should be. */
  groups: readonly PodGroup[];
  datasets: ReadonlyMap<string, PlannedDataset>;
}

export type Amounts = Readonly<Record<string, number>>;

export interface PlannedNode {
  name: string;
  labels: Readonly<Record<string, string>>;
  taints: readonly Taint[];
  unschedulable: boolean;
  /** The sum that pods may ask for, `pods` included. */
  allocatable: Amounts;
  /** Absent: no agent serves there, so no bytes can be brought. */
  agent?: {
    /** Bytes that its caches may take beside what is pinned there now. */
    availableBytes: number;
    /** By dataset key. */
    residentBytes: Readonly<Record<string, number>>;
    /**
     * By dataset key: bytes that pins keep there, whether they have come already or not, so that `availableBytes` is
     * without them; none of a dataset that is not among them. Absent: of every dataset as many as are resident.
     */
    pinnedBytes?: Readonly<Record<string, number>> | undefined;
  };
}

export interface RunningPod {
  namespace: string;
  labels: Readonly<Record<string, string>>;
  node: string;
  requests: Amounts;
  /** Of its containers; they take ports of the node. */
  hostPorts: readonly HostPort[];
  /** `metadata.deletionTimestamp` is set: topology spread does not count it. */
  deleting: boolean;
  /** Of a DaemonSet, or run by the kubelet itself: no other pod will ever have its room. */
  lasting?: boolean | undefined;
  /** Its required anti-affinity: pods that are kept away from where it runs. */
  repels?: readonly Repulsion[] | undefined;
}

/** Pods of these namespaces that match are refused by all nodes whose label `topologyKey` is that of the pod's node. */
export interface Repulsion {
  topologyKey: string;
  /** Absent: of all. */
  namespaces?: readonly string[] | undefined;
  selector: LabelSelector | undefined;
}

export interface HostPort {
  ip: string;
  protocol: string;
  port: number;
}

/** A group's pods have one template, as those of one owner do; where they differ they are several groups. */
export interface PodGroup {
  /** Name of the CachePreload, with its namespace: 'namespace/name'. */
  key: string;
  namespace: string;
  labels: Readonly<Record<string, string>>;
  /** Names of the pods, in the order in which they came. */
  pods: readonly string[];
  /** Of one pod. That each takes one of `pods` goes without saying. */
  requests: Amounts;
  hostPorts: readonly HostPort[];
  nodeSelector: Readonly<Record<string, string>>;
  /** requiredDuringSchedulingIgnoredDuringExecution of its node affinity: terms are alternatives. */
  requiredTerms: readonly NodeSelectorTerm[] | undefined;
  preferredTerms: readonly { weight: number; term: NodeSelectorTerm }[];
  tolerations: readonly Toleration[];
  spread: readonly TopologySpread[];
  /** Features of the pod that the planner does not model, in words for people; then affinity is never required. */
  unmodelled: readonly string[];
  /** Keys of `PlanInput.datasets`; one that is not there counts as empty. */
  datasets: readonly string[];
  mode: Exclude<GateMode, 'Off'>;
  minPercent: number;
  affinity: 'Preferred' | 'Required';
  /** Nodes of the plan that there is already; they are kept while pods can still go there. */
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
  /** False: ScheduleAnyway, a wish. */
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

export interface PlannedDataset {
  /** Of the present revision, all of its wanted files. */
  bytes: number;
}
