import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type MethodDefinition, type ServiceError, status } from '@grpc/grpc-js';
import { callSocket } from '@hearth/common/grpc/testing';
import { DaemonProcess, type Outcome, root, until } from '@hearth/common/testing';
import type { Cluster } from '@hearth/common/testing/agents';
import {
  NodePublishVolumeRequest,
  NodeService,
  VolumeCapability_AccessMode_Mode,
} from '@hearth/csi-driver/generated/csi/csi.ts';

const clusterName = 'e2e';

export interface Published {
  manifest: string;
  dataPath: string;
}

/** A node as the kubelet sees it: `hearth-csi-node` beside one agent of a cluster, with folders for pods. */
export class CsiNode {
  readonly socket: string;
  readonly podsFolder: string;
  readonly #folder: string;
  #process: DaemonProcess | undefined;

  private constructor(folder: string) {
    this.#folder = folder;
    this.socket = join(folder, 'csi.sock');
    this.podsFolder = join(folder, 'pods');
    mkdirSync(this.podsFolder);
  }

  /** The agent's flag for publishing volumes on this node. */
  static volumesDirectory(cluster: Cluster): string {
    return join(cluster.folder, 'state', clusterName);
  }

  /** Beside an agent that was started with that flag. */
  static async start(cluster: Cluster, agent: string): Promise<CsiNode> {
    const node = new CsiNode(cluster.folder);
    const run = join(CsiNode.volumesDirectory(cluster), 'run');
    mkdirSync(run, { recursive: true });
    symlinkSync(cluster.agent(agent).socket, join(run, 'agent.sock'));
    symlinkSync(join(cluster.folder, 'holder.sock'), join(run, 'holder.sock'));
    await node.begin();
    return node;
  }

  async begin(): Promise<void> {
    const { socket } = this;
    const running = new DaemonProcess(join(root, 'csi-driver/bin/hearth-csi-node'), [
      ...['--node', 'node-1', '--services', 'all', '--endpoint', `unix://${socket}`],
      ...['--state-directory', join(this.#folder, 'state'), '--kubelet-directory', this.#folder],
      ...['--registration-directory', 'none', '--log-format', 'json'],
    ]);
    this.#process = running;
    // The socket of a killed one may still be there.
    const serves = () => this.#call(NodeService.nodeGetInfo, {}).catch(() => undefined);
    await running.until('the driver is ready', serves);
  }

  async end(signal: NodeJS.Signals): Promise<Outcome | undefined> {
    return await this.#process?.end(signal);
  }

  /** Where a pod would see the volume. */
  target(pod: string): string {
    return join(this.podsFolder, pod, 'mount');
  }

  /** Publishes the inline volume of a pod in the namespace `default`. */
  async publish(pod: string, attributes: Record<string, string>, { readOnly = false } = {}): Promise<void> {
    mkdirSync(join(this.podsFolder, pod), { recursive: true });
    const context = {
      ...attributes,
      'csi.storage.k8s.io/ephemeral': 'true',
      'csi.storage.k8s.io/pod.namespace': 'default',
      'csi.storage.k8s.io/pod.name': pod,
      'csi.storage.k8s.io/pod.uid': pod,
    };
    const request = NodePublishVolumeRequest.fromPartial({
      volumeId: `csi-${pod}`,
      targetPath: this.target(pod),
      volumeCapability: { accessType: { $case: 'mount', value: {} }, accessMode: { mode: 1 } },
      volumeContext: context,
      readonly: readOnly,
    });
    await this.#call(NodeService.nodePublishVolume, request);
  }

  /** Publishes a PersistentVolume that is a writable volume of this name. `group`: the pod's fsGroup. */
  async publishWritable(pod: string, volume: string, { readOnly = false, group = '' } = {}): Promise<void> {
    mkdirSync(join(this.podsFolder, pod), { recursive: true });
    const request = NodePublishVolumeRequest.fromPartial({
      volumeId: `csi-${pod}`,
      targetPath: this.target(pod),
      volumeCapability: {
        accessType: { $case: 'mount', value: { volumeMountGroup: group } },
        accessMode: { mode: VolumeCapability_AccessMode_Mode.MULTI_NODE_MULTI_WRITER },
      },
      volumeContext: { cluster: clusterName, volume },
      readonly: readOnly,
    });
    await this.#call(NodeService.nodePublishVolume, request);
  }

  /** As the kubelet does for a pod with `hostUsers: false` before it asks for the sandbox. */
  giveUserNamespace(pod: string): void {
    const map = [{ hostId: 65536, containerId: 0, length: 65536 }];
    writeFileSync(join(this.podsFolder, pod, 'userns'), JSON.stringify({ uidMappings: map, gidMappings: map }));
  }

  async unpublish(pod: string): Promise<void> {
    await this.#call(NodeService.nodeUnpublishVolume, { volumeId: `csi-${pod}`, targetPath: this.target(pod) });
  }

  /** Bytes and files that the driver says a pod's volume has. */
  async sizes(pod: string): Promise<(bigint | undefined)[]> {
    const request = { volumeId: `csi-${pod}`, volumePath: this.target(pod), stagingTargetPath: '' };
    const { usage } = await this.#call(NodeService.nodeGetVolumeStats, request);
    return usage.map(({ used }) => used);
  }

  /** Records of what is published, by pod. */
  records(cluster: Cluster): Map<string, Published> {
    const folder = join(CsiNode.volumesDirectory(cluster), 'published');
    const records = readdirSync(folder).map((name) => JSON.parse(readFileSync(join(folder, name), 'utf8')));
    return new Map(records.map((record) => [record.pod.name, record]));
  }

  /** Asks again while the driver has another operation for the target under way, as the kubelet does. */
  async #call<Q, R>(method: MethodDefinition<Q, R>, request: Q): Promise<R> {
    const outcome = await until('the driver has done what was under way', () =>
      callSocket(this.socket, method, request).then(
        (answer) => ({ answer }),
        (error: ServiceError) => (error.code === status.ABORTED ? undefined : { error }),
      ),
    );
    if ('error' in outcome) throw outcome.error;
    return outcome.answer;
  }
}
