import { agentTopologyKey, clusterTopologyKey, topologyValue } from '@hearth/common/names';
import type { ClientAccess } from '../access/index.ts';
import { CsiError, invalidArgument } from '../csi_error.ts';
import * as csi from '../generated/csi/csi.ts';
import { normalTarget, type Space } from '../mounts/index.ts';
import {
  accessChosenByPod,
  chosenByPod,
  chosenByVolume,
  groupOf,
  isInline,
  requestsAccess,
  usageOf,
} from '../volume_request.ts';
import type { Publications } from './publications.ts';
import type { PublishedRecord } from './published_records.ts';

const { NodeServiceCapability_RPC_Type: Rpc, VolumeUsage_Unit: Unit } = csi;

export interface NodeServiceOptions {
  node: string;
  publications: Publications;
  access: ClientAccess;
  /** StorageClusters with an agent or holder on this node. */
  clusters: () => Promise<string[]>;
  /** Called after each publish. */
  published?: () => void;
}

/** CSI's Node service. Calls may repeat in any order and after restarts. */
export class NodeService {
  readonly #options: NodeServiceOptions;
  readonly #locks = new KeyedLocks();

  constructor(options: NodeServiceOptions) {
    this.#options = options;
  }

  nodeGetCapabilities(): csi.NodeGetCapabilitiesResponse {
    const types = [
      Rpc.STAGE_UNSTAGE_VOLUME,
      Rpc.GET_VOLUME_STATS,
      Rpc.SINGLE_NODE_MULTI_WRITER,
      // Files of Datasets are readable by all, whatever the group.
      Rpc.VOLUME_MOUNT_GROUP,
    ];
    return { capabilities: types.map((type) => ({ type: { $case: 'rpc', value: { type } } })) };
  }

  /** The kubelet calls this once for each registration and labels the node with the segments, as the operator does. */
  async nodeGetInfo(): Promise<csi.NodeGetInfoResponse> {
    const { node, clusters } = this.#options;
    return { nodeId: node, maxVolumesPerNode: 0n, accessibleTopology: { segments: segmentsOf(await clusters()) } };
  }

  /** Stages nothing: publishing chooses the revision, and revisions share their mounts. */
  nodeStageVolume(request: csi.NodeStageVolumeRequest): csi.NodeStageVolumeResponse {
    checkVolume(request.volumeId);
    if (request.stagingTargetPath === '') throw invalidArgument('the staging target path is missing');
    usageOf(request.volumeCapability);
    chosenByVolume(request.volumeContext);
    return {};
  }

  nodeUnstageVolume(request: csi.NodeUnstageVolumeRequest): csi.NodeUnstageVolumeResponse {
    checkVolume(request.volumeId);
    if (request.stagingTargetPath === '') throw invalidArgument('the staging target path is missing');
    return {};
  }

  async nodePublishVolume(
    request: csi.NodePublishVolumeRequest,
    signal: AbortSignal,
  ): Promise<csi.NodePublishVolumeResponse> {
    const volume = checkVolume(request.volumeId);
    const target = normalTarget(request.targetPath);
    const context = request.volumeContext;
    if (requestsAccess(context)) {
      await this.#publishAccess(volume, target, request, signal);
      return {};
    }
    const choice = isInline(request.volumeId, context) ? chosenByPod(context) : chosenByVolume(context);
    const usage = usageOf(request.volumeCapability, 'volume' in choice && !request.readonly);
    const group = groupOf(request.volumeCapability);
    const publication = { volume, target, choice, usage, readOnly: request.readonly, group, pod: podOf(context) };
    const keys = [targetKey(target), ...(usage.singleTarget ? [`volume ${volume}`] : [])];
    await this.#locks.hold(keys, () => this.#options.publications.publish(publication, signal));
    this.#options.published?.();
    return {};
  }

  async nodeUnpublishVolume(request: csi.NodeUnpublishVolumeRequest): Promise<csi.NodeUnpublishVolumeResponse> {
    const volume = checkVolume(request.volumeId);
    const target = normalTarget(request.targetPath);
    const { access, publications } = this.#options;
    await this.alone(target, async () => {
      if (!(await access.unpublish(volume, target))) await publications.unpublish(volume, target);
    });
    return {};
  }

  /** Renews the token of a target. Throws `ABORTED` as in `alone`. */
  async renewAccess(target: string, signal: AbortSignal): Promise<void> {
    const { access } = this.#options;
    const renewal = await access.renewal(target, signal);
    if (renewal !== undefined) await this.alone(target, () => access.refill(renewal));
  }

  /** Runs with the lock of the target. Throws `ABORTED` while another operation holds it. */
  async alone<T>(target: string, work: () => Promise<T>): Promise<T> {
    return await this.#locks.hold([targetKey(target)], work);
  }

  /**
   * Takes figures of a Dataset from the record: a call to the file system would hang without its agent. Its files have no
   * capacity (the fields are optional in CSI): nothing fills up, and alerts would take a volume without room for a full one.
   */
  async nodeGetVolumeStats(request: csi.NodeGetVolumeStatsRequest): Promise<csi.NodeGetVolumeStatsResponse> {
    const volume = checkVolume(request.volumeId);
    if (request.volumePath === '') throw invalidArgument('the volume path is missing');
    const { access, publications } = this.#options;
    const target = request.volumePath.startsWith('/') ? normalTarget(request.volumePath) : undefined;
    const mounted = target === undefined ? undefined : await access.space(volume, target);
    if (mounted !== undefined) return usageOfSpace(mounted);
    const published = target === undefined ? undefined : await publications.published(volume, target);
    if (published === undefined) {
      throw new CsiError(
        'NOT_FOUND',
        `volume ${volume} is not published at ${request.volumePath} on node ${this.#options.node}`,
      );
    }
    const space = await publications.space(published);
    if (space !== undefined) return usageOfSpace(space);
    return { usage: [figures(Unit.BYTES, published.bytes), figures(Unit.INODES, published.files)] };
  }

  async #publishAccess(
    volume: string,
    target: string,
    { volumeContext, volumeCapability, readonly: readOnly }: csi.NodePublishVolumeRequest,
    signal: AbortSignal,
  ): Promise<void> {
    if (!isInline(volume, volumeContext)) {
      throw invalidArgument(
        'clientAccess is for inline volumes of pods; remove it from the attributes of the PersistentVolume',
      );
    }
    const choice = accessChosenByPod(volumeContext);
    const group = groupOf(volumeCapability);
    const publication = { volume, target, choice, group, readOnly, pod: podOf(volumeContext) };
    await this.alone(target, () => this.#options.access.publish(publication, signal));
  }
}

function segmentsOf(clusters: readonly string[]): Record<string, string> {
  const keys = clusters.map(clusterTopologyKey);
  if (keys.length > 0) keys.push(agentTopologyKey);
  return Object.fromEntries(keys.map((key) => [key, topologyValue]));
}

function podOf(context: Record<string, string>): PublishedRecord['pod'] | undefined {
  const of = (field: string) => context[`csi.storage.k8s.io/pod.${field}`];
  const [namespace, name, uid] = [of('namespace'), of('name'), of('uid')];
  if (namespace === undefined || name === undefined || uid === undefined) return undefined;
  return { namespace, name, uid };
}

function usageOfSpace({ bytes, bytesFree, files, filesFree }: Space): csi.NodeGetVolumeStatsResponse {
  return { usage: [figures(Unit.BYTES, bytes - bytesFree, bytes), figures(Unit.INODES, files - filesFree, files)] };
}

function figures(unit: csi.VolumeUsage_Unit, used: bigint, total?: bigint) {
  return { unit, total: total ?? 0n, used, available: total === undefined ? 0n : total - used };
}

function targetKey(target: string): string {
  return `target ${target}`;
}

function checkVolume(id: string): string {
  if (id === '') throw invalidArgument('the volume id is missing');
  return id;
}

/** Exclusive keys without waiting: the CSI specification has callers retry. */
class KeyedLocks {
  readonly #held = new Set<string>();

  /** Holds the keys until the work ends, even if no caller waits any longer. Throws `ABORTED` when a key is held. */
  async hold<T>(keys: string[], work: () => Promise<T>): Promise<T> {
    const busy = keys.find((key) => this.#held.has(key));
    if (busy !== undefined) {
      throw new CsiError('ABORTED', `an operation for ${busy} is under way; the kubelet tries again`);
    }
    for (const key of keys) this.#held.add(key);
    try {
      return await work();
    } finally {
      for (const key of keys) this.#held.delete(key);
    }
  }
}
