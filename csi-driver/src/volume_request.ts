import * as names from '@hearth/common/names';
import { failedPrecondition, invalidArgument } from './csi_error.ts';
import { VolumeCapability_AccessMode_Mode as Mode, type VolumeCapability } from './generated/csi/csi.ts';
import { accessNames, attributeNames, volumeNames } from './names.ts';

export interface DatasetChoice {
  /** Undefined for the only StorageCluster. */
  cluster: string | undefined;
  namespace: string;
  dataset: string;
  /** Digest of a manifest; empty for the present revision at each publish. */
  revision: string;
}

/** A writable volume, by its name in agents. */
export interface VolumeChoice {
  cluster: string | undefined;
  volume: string;
}

export interface AccessChoice extends Pick<DatasetChoice, 'cluster' | 'namespace'> {
  /** Names of Dataset objects, at least one. */
  datasets: string[];
  rights: AccessRight[];
}
/** What each grants: CreateTokenRequest in proto/hearth/v1/control.proto. */
export const accessRights = ['read', 'advise', 'advise-cluster'] as const;
export type AccessRight = (typeof accessRights)[number];

const foreignKeys = /^(?:csi\.storage\.k8s\.io|storage\.kubernetes\.io)\//;
const podNamespaceKey = 'csi.storage.k8s.io/pod.namespace';
const ephemeralKey = 'csi.storage.k8s.io/ephemeral';

/** RFC 1123: namespaces have no dots, so `NAMESPACE.NAME` is unambiguous. */
const label = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;
const subdomain = /^(?=.{1,253}$)[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*$/;
const digest = /^[0-9a-f]{64}$/;

/** For PersistentVolumes and StorageClasses, whose authors may name any namespace. */
export function chosenBy(attributes: Record<string, string>): DatasetChoice {
  const own = ownAttributes(attributes, attributeNames);
  const namespace = required(own, attributeNames.namespace);
  return { ...common(own), namespace: checked(attributeNames.namespace, namespace, label, 'a namespace') };
}

/** As `chosenBy`, and for writable volumes. */
export function chosenByVolume(attributes: Record<string, string>): DatasetChoice | VolumeChoice {
  if (!(volumeNames.volume in attributes)) return chosenBy(attributes);
  const own = ownAttributes(attributes, volumeNames);
  const volume = required(own, volumeNames.volume);
  return { cluster: clusterOf(own), volume: checked(volumeNames.volume, volume, subdomain, 'the name of a volume') };
}

/** For authors of pods: the namespace is the pod's own, which the kubelet sets (CSIDriver `podInfoOnMount`). */
export function chosenByPod(attributes: Record<string, string>): DatasetChoice {
  refuseNamespace(attributes);
  const own = ownAttributes(attributes, attributeNames);
  return { ...common(own), namespace: podNamespace(attributes) };
}

/** True for a volume of client access, which shows no files of a Dataset. */
export function requestsAccess(attributes: Record<string, string>): boolean {
  return accessNames.access in attributes;
}

/** For attributes for which `requestsAccess` is true. Namespaces as in `chosenByPod`. */
export function accessChosenByPod(attributes: Record<string, string>): AccessChoice {
  refuseNamespace(attributes);
  const own = ownAttributes(attributes, accessNames);
  if (own[accessNames.access] !== 'true') {
    throw invalidArgument(`the attribute ${accessNames.access} must be "true"; remove it for a volume with files`);
  }
  const datasets = listOf(required(own, accessNames.datasets));
  for (const dataset of datasets) checked(accessNames.datasets, dataset, subdomain, 'names of Datasets, with commas');
  const rights = listOf(own[accessNames.rights] ?? 'read').map((right): AccessRight => {
    const known = accessRights.find((one) => one === right);
    if (known !== undefined) return known;
    throw invalidArgument(`the attribute ${accessNames.rights} must be a list of ${accessRights.join(', ')}`);
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
  throw failedPrecondition(
    'the kubelet does not give the namespace of the pod; set podInfoOnMount: true in the CSIDriver object',
  );
}

function listOf(text: string): string[] {
  return [...new Set(text.split(',').map((part) => part.trim()))];
}

/** The kubelet's names of inline volumes (makeVolumeHandle in its CSI plugin). */
const inlineVolume = /^csi-[0-9a-f]{64}$/;

/** Checks the volume's name, too, so that no pod's author passes for an author of PersistentVolumes. */
export function isInline(volumeId: string, attributes: Record<string, string>): boolean {
  return attributes[ephemeralKey] === 'true' || inlineVolume.test(volumeId);
}

export function registeredName(choice: Pick<DatasetChoice, 'namespace' | 'dataset'> | VolumeChoice): string {
  if ('volume' in choice) return `${names.writableVolumePrefix}${choice.volume}`;
  return names.registeredName(choice.namespace, choice.dataset);
}

/** The choice of a `registeredName`. */
export function choiceOf(cluster: string, registered: string, revision: string): DatasetChoice | VolumeChoice {
  if (registered.startsWith(names.writableVolumePrefix)) {
    return { cluster, volume: registered.slice(names.writableVolumePrefix.length) };
  }
  const { namespace = '', name = registered } = names.splitRegisteredName(registered) ?? {};
  return { cluster, namespace, dataset: name, revision };
}

/** Throws `INVALID_ARGUMENT` unless it is a name of a StorageCluster, which also names a directory. */
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

/** Attributes without those of Kubernetes. Rejects unknown ones, which are misspelt or meant for another driver. */
function ownAttributes(attributes: Record<string, string>, names: Record<string, string>): Record<string, string> {
  const own = Object.entries(attributes).filter(([name]) => !foreignKeys.test(name));
  const known = Object.values(names);
  const unknown = own.map(([name]) => name).filter((name) => !known.includes(name));
  if (unknown.length > 0) {
    throw invalidArgument(
      `unknown attributes: ${unknown.sort().slice(0, 10).join(', ')}; there are ${known.join(', ')}`,
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

export interface Usage {
  /** ReadWriteOncePod: one target on one node. */
  singleTarget: boolean;
  noexec: boolean;
  /** A writable volume whose pod did not ask for `readOnly`; absent: false. */
  writable?: boolean;
}

/** Accepts every access mode. `writable`: containers may write. Throws `INVALID_ARGUMENT` for block volumes, file system types and foreign options. */
export function usageOf(capability: VolumeCapability | undefined, writable = false): Usage {
  if (capability === undefined) throw invalidArgument('the volume capability is missing');
  const { accessType, accessMode } = capability;
  switch (accessType?.$case) {
    case undefined:
      throw invalidArgument('the volume capability names no access type; it must be a mount');
    case 'block':
      throw invalidArgument('a volume is a folder of files and cannot be a block device; set volumeMode: Filesystem');
    case 'mount':
      break;
  }
  const { fsType, mountFlags } = accessType.value;
  if (fsType !== '') throw invalidArgument('volumes of Hearth have no file system type; leave fsType out');
  // The message does not repeat unknown flags.
  if (mountFlags.some((flag) => !names.volumeMountOptions.includes(flag))) {
    throw invalidArgument(`mount options of a volume may be ${names.volumeMountOptions.join(', ')}; remove all others`);
  }
  // Container runtimes take the flag off their own mounts, so it would protect nothing.
  if (writable && mountFlags.includes('ro')) {
    throw invalidArgument('the mount option ro is for Datasets; set readOnly in the pod, where it names the claim');
  }
  return {
    singleTarget: isSingleTarget(accessMode?.mode),
    noexec: mountFlags.includes('noexec'),
    ...(writable ? { writable } : {}),
  };
}

/** The pod's fsGroup, which may read the files; undefined for every user of the pod. */
export function groupOf(capability: VolumeCapability | undefined): number | undefined {
  const access = capability?.accessType;
  const group = access?.$case === 'mount' ? access.value.volumeMountGroup : '';
  if (group === '') return undefined;
  if (/^\d{1,10}$/.test(group) && Number(group) < 2 ** 32 - 1) return Number(group);
  throw invalidArgument('the group of the volume is not a number of a group; set fsGroup in the pod to one');
}

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
