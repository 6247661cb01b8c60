import { CsiError } from '../csi_error.ts';
import { VolumeCapability_AccessMode_Mode as Mode, type VolumeCapability } from '../generated/csi/csi.ts';

/** Options of mount(8) that change nothing that a dataset promises. Others are refused without repeating them. */
const mountOptions = ['ro', 'nosuid', 'nodev', 'noexec', 'noatime', 'nodiratime', 'relatime'];

/** How a volume may be used, as far as it matters to a dataset. */
export interface Usage {
  /** At most one target on a node, and one node (Kubernetes: ReadWriteOncePod). */
  singleTarget: boolean;
  noexec: boolean;
}

/**
 * What a capability asks for. Every access mode is accepted, since a dataset is read-only whatever it says.
 * `INVALID_ARGUMENT` for block volumes, file system types and options that are not ours.
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
