import * as names from '@hearth/common/names';
import { CsiError } from './csi_error.ts';
import { VolumeCapability_AccessMode_Mode as Mode, type VolumeCapability } from './generated/csi/csi.ts';
import { attributeNames } from './names.ts';

/** Which dataset, in which cluster, in which state. */
export interface DatasetChoice {
  /** StorageCluster; undefined: the only one. */
  cluster: string | undefined;
  namespace: string;
  dataset: string;
  /** Digest of a manifest; '': the present revision at each publish. */
  revision: string;
}

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
  const own = ownAttributes(attributes);
  const namespace = required(own, attributeNames.namespace);
  return { ...common(own), namespace: checked(attributeNames.namespace, namespace, label, 'a namespace') };
}

/**
 * Of the attributes of an inline volume, which the author of a pod writes: the namespace is the pod's own, which the
 * kubelet gives (CSIDriver `podInfoOnMount`) over anything of that name that the author wrote.
 */
export function chosenByPod(attributes: Record<string, string>): DatasetChoice {
  const own = ownAttributes(attributes);
  if (attributeNames.namespace in own) {
    throw invalid(
      `an inline volume shows a Dataset of the pod's own namespace; remove the attribute ${attributeNames.namespace}`,
    );
  }
  const namespace = attributes[podNamespaceKey] ?? '';
  if (!label.test(namespace)) {
    throw new CsiError(
      'FAILED_PRECONDITION',
      'the kubelet does not give the namespace of the pod; set podInfoOnMount: true in the CSIDriver object',
    );
  }
  return { ...common(own), namespace };
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
  const cluster = own[attributeNames.cluster];
  const dataset = required(own, attributeNames.dataset);
  const revision = own[attributeNames.revision] ?? '';
  if (revision !== '') checked(attributeNames.revision, revision, digest, 'the 64 hexadecimal digits of a revision');
  return {
    cluster: cluster === undefined || cluster === '' ? undefined : checkClusterName(cluster),
    dataset: checked(attributeNames.dataset, dataset, subdomain, 'the name of a Dataset'),
    revision,
  };
}

/** Without what Kubernetes adds. Unknown ones are refused: they are misspelt or meant for another driver. */
function ownAttributes(attributes: Record<string, string>): Record<string, string> {
  const own = Object.entries(attributes).filter(([name]) => !foreignKeys.test(name));
  const known: string[] = Object.values(attributeNames);
  const strange = own.map(([name]) => name).filter((name) => !known.includes(name));
  if (strange.length > 0) {
    throw invalid(`unknown attributes: ${strange.sort().slice(0, 10).join(', ')}; there are ${known.join(', ')}`);
  }
  return Object.fromEntries(own);
}

function required(own: Record<string, string>, name: string): string {
  const value = own[name] ?? '';
  if (value === '') throw invalid(`the attribute ${name} is missing`);
  return value;
}

function checked(name: string, value: string, pattern: RegExp, what: string): string {
  if (pattern.test(value)) return value;
  throw invalid(`the attribute ${name} must be ${what}, which ${JSON.stringify(value.slice(0, 80))} is not`);
}

/** Options of mount(8) that change nothing that a dataset promises. Others are refused without repeating them. */
const mountOptions = ['ro', 'nosuid', 'nodev', 'noexec', 'noatime', 'nodiratime', 'relatime'];

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
  if (capability === undefined) throw invalid('the volume capability is missing');
  const { accessType, accessMode } = capability;
  switch (accessType?.$case) {
    case undefined:
      throw invalid('the volume capability names no access type; it must be a mount');
    case 'block':
      throw invalid('a dataset is a folder of files and cannot be a block device; set volumeMode: Filesystem');
    case 'mount':
      break;
  }
  const { fsType, mountFlags } = accessType.value;
  if (fsType !== '') throw invalid('a dataset has no file system type; leave fsType out');
  if (mountFlags.some((flag) => !mountOptions.includes(flag))) {
    throw invalid(`mount options of a dataset may be ${mountOptions.join(', ')}; remove the others`);
  }
  return { singleTarget: isSingleTarget(accessMode?.mode), noexec: mountFlags.includes('noexec') };
}

/** As `usageOf` for a list that may not be empty. */
export function checkCapabilities(capabilities: VolumeCapability[]): void {
  if (capabilities.length === 0) throw invalid('the volume capabilities are missing');
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
      throw invalid('the access mode is missing or unknown');
  }
}

function invalid(message: string): CsiError {
  return new CsiError('INVALID_ARGUMENT', message);
}
