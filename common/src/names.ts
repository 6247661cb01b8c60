/** Kubernetes names of Hearth, shared with the chart. */

export const apiGroup = 'hearth.storage';
export const apiVersion = 'v1alpha1';
/** Name of the CSI driver, and provisioner of its StorageClasses. */
export const driverName = 'csi.hearth.storage';
/** mount(8) options that a volume may request; none of them weakens a Dataset's guarantees. */
export const volumeMountOptions: readonly string[] = [
  'ro',
  'nosuid',
  'nodev',
  'noexec',
  'noatime',
  'nodiratime',
  'relatime',
];
/** Holds an object until everything outside of Kubernetes that belongs to it is removed. */
export const finalizerName = 'hearth.storage/finalizer';
/** Field manager of the operator. */
export const fieldManager = 'hearth-operator';
/** Taint (NoSchedule) for registering nodes; the operator removes it when the agent is ready. */
export const startupTaintKey = 'hearth.storage/agent-not-ready';
/** The second one is known to every Cluster Autoscaler, by its prefix; managed ones take no flag for the first. */
export const startupTaintKeys: readonly string[] = [
  startupTaintKey,
  'startup-taint.cluster-autoscaler.kubernetes.io/hearth-agent-not-ready',
];
/** Hash of the object as last applied, to detect drift and changes. */
export const specHashAnnotation = 'hearth.storage/spec-hash';
/** Annotation of a StorageCluster under deletion: `true` deletes it even while pods mount its volumes. */
export const forceDeletionAnnotation = 'hearth.storage/force-deletion';
/** Annotation of a StorageCluster: `true` changes or rebuilds its store although scratch volumes are lost. */
export const forceStoreChangeAnnotation = 'hearth.storage/force-store-change';
/** Annotation of a PersistentVolume: the node whose disk has the log of names of a scratch volume. */
export const logNodeAnnotation = 'hearth.storage/log-node';
export const clusterLabel = 'hearth.storage/cluster';
export const nodeGroupLabel = 'hearth.storage/node-group';

/**
 * Node labels and topology keys of the CSI driver with value `topologyValue`. `agentTopologyKey`: the node runs agents
 * of any StorageCluster; `clusterTopologyKey`: agents of this one. StorageCluster names are labels without dots, so
 * every key is valid.
 */
export const agentTopologyKey = 'csi.hearth.storage/agent';
export const clusterTopologyPrefix = 'cluster.csi.hearth.storage/';
export const topologyValue = 'true';

/** Topology key of the nodes on which volumes of a StorageCluster can be used. */
export function clusterTopologyKey(cluster: string): string {
  return `${clusterTopologyPrefix}${cluster}`;
}

/**
 * Node label, with the node group as value, that places agents and holders of a StorageCluster. The operator takes the
 * group away only when no pod mounts a volume there, so changes of other labels or of the spec never end an agent under
 * a reading pod. `noAgents`, which no group can be named, keeps out the agents that come to new nodes by themselves.
 */
export const agentsLabelPrefix = 'agents.hearth.storage/';

export const noAgents = 'None';

export function agentsLabel(cluster: string): string {
  return `${agentsLabelPrefix}${cluster}`;
}

/** ConfigMap and its file, in the operator's namespace, from which csi-node learns the nodes with agents. */
export const nodeGroupsConfigMap = 'hearth-node-groups';
export const nodeGroupsFile = 'node-groups.json';

/** Scheduling gate of pods that wait for a preload. */
export const preloadGateName = 'hearth.storage/preload';
/** Pod annotation with the name of the pod's CachePreload. Admission writes it. */
export const preloadAnnotation = 'hearth.storage/preload';
/** Pod annotations that request a gate and override the Datasets; they mirror the fields of `gate`. */
export const gateAnnotations = {
  mode: 'hearth.storage/gate',
  minPercent: 'hearth.storage/gate-min-percent',
  timeout: 'hearth.storage/gate-timeout',
  affinity: 'hearth.storage/gate-affinity',
  readyWhen: 'hearth.storage/gate-ready-when',
} as const;
/** Pod label that groups pods of several owners into one plan. */
export const podGroupLabel = 'hearth.storage/pod-group';

/** Before the name of a writable volume, where agents take the name of a dataset, too. */
export const writableVolumePrefix = 'volume:';

/** Name of a Dataset in agents. Namespaces contain no dots, so names are unique. */
export function registeredName(namespace: string, name: string): string {
  return `${namespace}.${name}`;
}

/** The Dataset of a registered name; undefined for names that the operator did not create. */
export function splitRegisteredName(registered: string): { namespace: string; name: string } | undefined {
  const dot = registered.indexOf('.');
  if (dot <= 0 || dot === registered.length - 1) return undefined;
  return { namespace: registered.slice(0, dot), name: registered.slice(dot + 1) };
}
