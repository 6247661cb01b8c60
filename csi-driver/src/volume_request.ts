import * as names from '@hearth/common/names';
import { CsiError, invalidArgument } from './csi_error.ts';
import { VolumeCapability_AccessMode_Mode as Mode, type VolumeCapability } from './generated/csi/csi.ts';
import { accessNames, attributeNames } from './names.ts';

/** A dataset, its cluster and its state. */
export interface DatasetChoice {
  /** StorageCluster; undefined: the only one. */
  cluster: string | undefined;
  namespace: string;
  dataset: string;
  /** Digest of a manifest; '': the present revision at each publish. */
  revision: string;
}

/** Datasets that programs of a pod may use through libgd2fs, and in which ways. */
export interface AccessChoice extends Pick<DatasetChoice, 'cluster' | 'namespace'> {
  /** At least one, by the names of Dataset objects. */
  datasets: string[];
  rights: AccessRight[];
}
export type AccessRight = 'read' | 'advise';

/** Kubernetes adds keys of its own to what people write. */
const foreignKeys = /^(?:csi\.storage\.k8s\.io|storage\.kubernetes\.io)\//;
const podNamespaceKey = 'csi.storage.k8s.io/pod.namespace';
const ephemeralKey = 'csi.storage.k8s.io/ephemeral';

/** Names of Kubernetes (RFC 1123): namespaces have no dots, so `NAMESPACE.NAME` is unambiguous. */
const label = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;
const subdomain = /^(?=.{1,253}$)[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*$/;
const digest = /^[0-9a-f]{64}$/;

/**
 * Of the attributes of a PersistentVolume or the parameters of a StorageClass: both are written by whoever may name
 * any namespace. `INVALID_ARGUMENT` names the attribute that is wrong.
 */
export function chosenBy(attributes: Record<string, string>): DatasetChoice {
  const own = ownAttributes(attributes, attributeNames);
  const namespace = required(own, attributeNames.namespace);
  return { ...common(own), namespace: checked(attributeNames.namespace, namespace, label, 'a namespace') };
}

/**
 * Of the attributes of an inline volume, which the author of a pod writes: the namespace is the pod's own, which the
 * kubelet gives (CSIDriver `podInfoOnMount`) over anything of that name that the author wrote.
 */
export function chosenByPod(attributes: Record<string, string>): DatasetChoice {
  refuseNamespace(attributes);
  const own = ownAttributes(attributes, attributeNames);
  return { ...common(own), namespace: podNamespace(attributes) };
}

/** True when the volume is to give the pod access through libgd2fs, and shows no files of a Dataset. */
export function asksForAccess(attributes: Record<string, string>): boolean {
  return accessNames.access in attributes;
}

/** Of the attributes of an inline volume for which `asksForAccess` is true. Namespaces as in `chosenByPod`. */
export function accessChosenByPod(attributes: Record<string, string>): AccessChoice {
  refuseNamespace(attributes);
  const own = ownAttributes(attributes, accessNames);
  if (own[accessNames.access] !== 'true') {
    throw invalidArgument(`the attribute ${accessNames.access} must be "true"; remove it for a volume with files`);
  }
  const datasets = listOf(required(own, accessNames.datasets));
  for (const dataset of datasets) checked(accessNames.datasets, dataset, subdomain, 'names of Datasets, with commas');
  const rights = listOf(own[accessNames.rights] ?? 'read').map((right): AccessRight => {
    if (right === 'read' || right === 'advise') return right;
    throw invalidArgument(`the attribute ${accessNames.rights} must be read, or read,advise`);
  });
  return { cluster: clusterOf(own), namespace: podNamespace(attributes), datasets, rights };
}

function refuseNamespace(attributes: Record<string, string>): void {
  if (!(attributeNames.namespace in attributes)) return;
  throw invalidArgument(
    `an inline volume shows a Dataset of the pod's own namespace; remove the attribute ${attributeNames.namespace}`,
  );
}

function podNamespace(attributes: Record<string, string>): string {
  const namespace = attributes[podNamespaceKey] ?? '';
  if (label.test(namespace)) return namespace;
  throw new CsiError(
    'FAILED_PRECONDITION',
    'the kubelet does not give the namespace of the pod; set podInfoOnMount: true in the CSIDriver object',
  );
}

function listOf(text: string): string[] {
  return [...new Set(text.split(',').map((part) => part.trim()))];
}

/** Names that the kubelet makes for volumes of pods (makeVolumeHandle in its CSI plugin). */
const inlineVolume = /^csi-[0-9a-f]{64}$/;

/**
 * True when the pod itself defines the volume. The kubelet says so when `podInfoOnMount` is set; the volume's name says
 * it too, so that the driver never takes a pod's author for an author of PersistentVolumes.
 */
export function isInline(volumeId: string, attributes: Record<string, string>): boolean {
  return attributes[ephemeralKey] === 'true' || inlineVolume.test(volumeId);
}

/** The name under which agents know the Dataset. */
export function registeredName(choice: Pick<DatasetChoice, 'namespace' | 'dataset'>): string {
  return names.registeredName(choice.namespace, choice.dataset);
}

/** A StorageCluster's name, which also names a folder. `INVALID_ARGUMENT` otherwise. */
export function checkClusterName(name: string): string {
  return checked(attributeNames.cluster, name, subdomain, 'the name of a StorageCluster');
}

function common(own: Record<string, string>): Omit<DatasetChoice, 'namespace'> {
  const dataset = required(own, attributeNames.dataset);
  const revision = own[attributeNames.revision] ?? '';
  if (revision !== '') checked(attributeNames.revision, revision, digest, 'the 64 hexadecimal digits of a revision');
  return {
    cluster: clusterOf(own),
    dataset: checked(attributeNames.dataset, dataset, subdomain, 'the name of a Dataset'),
    revision,
  };
}

function clusterOf(own: Record<string, string>): string | undefined {
  const cluster = own[attributeNames.cluster] ?? '';
  return cluster === '' ? undefined : checkClusterName(cluster);
}

/** The attributes that people write. Unknown ones are refused: they are misspelt or meant for another driver. */
function ownAttributes(attributes: Record<string, string>, names: Record<string, string>): Record<string, string> {
  const own = Object.entries(attributes).filter(([name]) => !foreignKeys.test(name));
  const known = Object.values(names);
  const strange = own.map(([name]) => name).filter((name) => !known.includes(name));
  if (strange.length > 0) {
    throw invalidArgument(
      `unknown attributes: ${strange.sort().slice(0, 10).join(', ')}; there are ${known.join(', ')}`,
    );
  }
  return Object.fromEntries(own);
}

function required(own: Record<string, string>, name: string): string {
  const value = own[name] ?? '';
  if (value === '') throw invalidArgument(`the attribute ${name} is missing`);
  return value;
}

function checked(name: string, value: string, pattern: RegExp, what: string): string {
  if (pattern.test(value)) return value;
  throw invalidArgument(`the attribute ${name} must be ${what}, which ${JSON.stringify(value.slice(0, 80))} is not`);
}

/** How a volume may be used, as far as it matters to a dataset. */
export interface Usage {
  /** At most one target on a node, and one node (Kubernetes: ReadWriteOncePod). */
  singleTarget: boolean;
  noexec: boolean;
}

/**
 * The usage that a capability asks for. Every access mode is accepted, since a dataset is read-only in all of them.
 * `INVALID_ARGUMENT` for block volumes, and for file system types and options of other drivers.
 */
export function usageOf(capability: VolumeCapability | undefined): Usage {
  if (capability === undefined) throw invalidArgument('the volume capability is missing');
  const { accessType, accessMode } = capability;
  switch (accessType?.$case) {
    case undefined:
      throw invalidArgument('the volume capability names no access type; it must be a mount');
    case 'block':
      throw invalidArgument('a dataset is a folder of files and cannot be a block device; set volumeMode: Filesystem');
    case 'mount':
      break;
  }
  const { fsType, mountFlags } = accessType.value;
  if (fsType !== '') throw invalidArgument('a dataset has no file system type; leave fsType out');
  // Refused without repeating them.
  if (mountFlags.some((flag) => !names.volumeMountOptions.includes(flag))) {
    throw invalidArgument(
      `mount options of a dataset may be ${names.volumeMountOptions.join(', ')}; remove all others`,
    );
  }
  return { singleTarget: isSingleTarget(accessMode?.mode), noexec: mountFlags.includes('noexec') };
}

/** The group that may read the files of a volume, as a pod's fsGroup says; undefined: every user of the pod may. */
export function groupOf(capability: VolumeCapability | undefined): number | undefined {
  const access = capability?.accessType;
  const group = access?.$case === 'mount' ? access.value.volumeMountGroup : '';
  if (group === '') return undefined;
  if (/^\d{1,10}$/.test(group) && Number(group) < 2 ** 32 - 1) return Number(group);
  throw invalidArgument('the group of the volume is not a number of a group; set fsGroup in the pod to one');
}

/** As `usageOf` for a list that may not be empty. */
export function checkCapabilities(capabilities: VolumeCapability[]): void {
  if (capabilities.length === 0) throw invalidArgument('the volume capabilities are missing');
  for (const capability of capabilities) usageOf(capability);
}

function isSingleTarget(mode: Mode | undefined): boolean {
  switch (mode) {
    case Mode.SINGLE_NODE_SINGLE_WRITER:
      return true;
    case Mode.SINGLE_NODE_WRITER:
    case Mode.SINGLE_NODE_READER_ONLY:
    case Mode.SINGLE_NODE_MULTI_WRITER:
    case Mode.MULTI_NODE_READER_ONLY:
    case Mode.MULTI_NODE_SINGLE_WRITER:
    case Mode.MULTI_NODE_MULTI_WRITER:
      return false;
    case Mode.UNKNOWN:
    case Mode.UNRECOGNIZED:
    case undefined:
      throw invalidArgument('the access mode is missing or unknown');
  }
}
