import { join } from 'node:path';
import { knock, longestSocketPath } from '@hearth/common';
import { type CsiError, failedPrecondition } from '../csi_error.ts';
import { listFolder } from '../list_folder.ts';
import { checkClusterName } from '../volume_request.ts';
import { type ControlCalls, SocketCalls } from './control_calls.ts';

const knockMs = 2000;

export interface NodeAgentsOptions {
  /** Contains a directory for each cluster: `<state>/<cluster>/run/agent.sock`. */
  stateDirectory: string;
  node: string;
  deadlineMs: number;
  selection?: (cluster: string | undefined) => Promise<string | undefined>;
}

export interface NodeAgent {
  cluster: string;
  /** The cluster's directory on this node, above everything that the agent publishes. */
  directory: string;
  control: ControlCalls;
}

export class NodeAgents {
  readonly #options: NodeAgentsOptions;

  constructor(options: NodeAgentsOptions) {
    this.#options = options;
  }

  /** Throws `FAILED_PRECONDITION` when it does not answer, and without `cluster` unless there is one. */
  async find(cluster: string | undefined): Promise<NodeAgent> {
    const { stateDirectory, deadlineMs } = this.#options;
    const name = cluster === undefined ? await this.#only() : checkClusterName(cluster);
    const directory = join(stateDirectory, name);
    const socket = join(directory, 'run', 'agent.sock');
    if (Buffer.byteLength(socket) > longestSocketPath) {
      throw failedPrecondition(
        `the socket path ${socket} is longer than ${longestSocketPath} bytes; give the StorageCluster a shorter name`,
      );
    }
    const absent = await knock(socket, knockMs);
    if (absent !== undefined) throw await this.#notRunning(name, socket, absent);
    return { cluster: name, directory, control: new SocketCalls(socket, deadlineMs) };
  }

  /** Clusters with an agent or a holder, which stays while an agent restarts. */
  async clusters(): Promise<string[]> {
    const { stateDirectory } = this.#options;
    const found: string[] = [];
    for (const name of await listFolder(stateDirectory)) {
      if ((await listFolder(join(stateDirectory, name, 'run'))).some((file) => file.endsWith('.sock')))
        found.push(name);
    }
    return found.sort();
  }

  async #only(): Promise<string> {
    const { node } = this.#options;
    const clusters = await this.clusters();
    const [first, ...others] = clusters;
    if (first === undefined) {
      const folders = await listFolder(this.#options.stateDirectory);
      const traces = folders.length === 0 ? '' : `, and of ${folders.sort().join(', ')} only folders are left`;
      throw failedPrecondition(
        `no agent of a StorageCluster runs on node ${node}${traces}; ${await this.#whereAgentsRun(undefined)}, and look at the agent's pod: kubectl get pods -A -l app.kubernetes.io/component=agent --field-selector spec.nodeName=${node}`,
      );
    }
    if (others.length === 0) return first;
    throw failedPrecondition(
      `node ${node} is in several StorageClusters (${clusters.join(', ')}); name one of them by the attribute cluster`,
    );
  }

  async #notRunning(cluster: string, socket: string, reason: string): Promise<CsiError> {
    const { node } = this.#options;
    return failedPrecondition(
      `the agent of StorageCluster ${cluster} does not run on node ${node} (${reason} at ${socket}); ${await this.#whereAgentsRun(cluster)}, and look at its pod: kubectl get pods -A -l hearth.storage/cluster=${cluster} --field-selector spec.nodeName=${node}`,
    );
  }

  /** Names the missing label, if the node's labels are the reason. */
  async #whereAgentsRun(cluster: string | undefined): Promise<string> {
    const known = await this.#options.selection?.(cluster);
    if (known !== undefined) return known;
    return cluster === undefined
      ? 'check that a node group of one selects this node (kubectl get storageclusters)'
      : 'check that one of its node groups selects this node';
  }
}
