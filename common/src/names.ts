/** Names by which Hearth is known in Kubernetes. The chart writes the same ones. */

export const apiGroup = 'hearth.storage';
export const apiVersion = 'v1alpha1';
/** The CSI driver, and the provisioner of its StorageClasses. */
export const driverName = 'csi.hearth.storage';
/** Options of mount(8) that a volume may ask for: they change nothing that a Dataset promises. */
export const volumeMountOptions: readonly string[] = [
  'ro',
  'nosuid',
  'nodev',
  'noexec',
  'noatime',
  'nodiratime',
  'relatime',
];
/** Keeps an object until what belongs to it outside of Kubernetes has been removed. */
export const finalizerName = 'hearth.storage/finalizer';
/** Field manager of everything the operator applies. */
export const fieldManager = 'hearth-operator';
/** Taint (effect NoSchedule) that a node may be registered with; it goes when the agent there is ready. */
export const startupTaintKey = 'hearth.storage/agent-not-ready';
/** Hash of the object as it was applied, by which drift and changes are distinguished from sameness. */
export const specHashAnnotation = 'hearth.storage/spec-hash';
/** Annotation of a StorageCluster that is being deleted: `true` has it go though pods mount its volumes. */
export const forceDeletionAnnotation = 'hearth.storage/force-deletion';
export const clusterLabel = 'hearth.storage/cluster';
export const nodeGroupLabel = 'hearth.storage/node-group';

/**
 * Labels of nodes, and topology keys of the CSI driver: the first says that agents of any StorageCluster belong on the node,
 * the second that agents of this one do. Their value is `topologyValue`. Names of StorageClusters are labels without dots, so
 * every key is valid.
 */
export const agentTopologyKey = 'csi.hearth.storage/agent';
export const clusterTopologyPrefix = 'cluster.csi.hearth.storage/';
export const topologyValue = 'true';

/** The topology key of the nodes on which volumes of a StorageCluster can be used. */
export function clusterTopologyKey(cluster: string): string {
  return `${clusterTopologyPrefix}${cluster}`;
}

/**
 * Label of a node, by which the agents and holders of a StorageCluster are placed: its value is the node group. The operator
 * writes it, and takes it off only when no pod mounts a volume there, so that a change of other labels, or of the spec, ends
 * no agent under a pod that reads.
 */
export const agentsLabelPrefix = 'agents.hearth.storage/';

export function agentsLabel(cluster: string): string {
  return `${agentsLabelPrefix}${cluster}`;
}

/** ConfigMap in the operator's namespace, and the file in it, by which csi-node learns which nodes have agents. */
export const nodeGroupsConfigMap = 'hearth-node-groups';
export const nodeGroupsFile = 'node-groups.json';

/** Scheduling gate of pods that wait for bytes. */
export const preloadGateName = 'hearth.storage/preload';
/** Annotation of such a pod: the name of its CachePreload, which is the plan for it. Written at admission. */
export const preloadAnnotation = 'hearth.storage/preload';
/** Annotations by which a pod asks for a gate whatever its Datasets say. They have the fields of `gate`. */
export const gateAnnotations = {
  mode: 'hearth.storage/gate',
  minPercent: 'hearth.storage/gate-min-percent',
  timeout: 'hearth.storage/gate-timeout',
  affinity: 'hearth.storage/gate-affinity',
  readyWhen: 'hearth.storage/gate-ready-when',
} as const;
/** Label by which pods of several owners are planned together. */
export const podGroupLabel = 'hearth.storage/pod-group';

/** The name by which agents know a Dataset. Namespaces have no dots, so two Datasets never share one. */
export function registeredName(namespace: string, name: string): string {
  return `${namespace}.${name}`;
}

/** The Dataset that a registered name stands for; undefined for names that the operator did not give. */
export function splitRegisteredName(registered: string): { namespace: string; name: string } | undefined {
  const dot = registered.indexOf('.');
  if (dot <= 0 || dot === registered.length - 1) return undefined;
  return { namespace: registered.slice(0, dot), name: registered.slice(dot + 1) };
}
