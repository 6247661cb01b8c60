import { join } from 'node:path';
import { knock, longestSocketPath } from '@hearth/common';
import { CsiError } from '../csi_error.ts';
import { listFolder } from '../list_folder.ts';
import { checkClusterName } from '../volume_request.ts';
import { type ControlCalls, SocketCalls } from './control_calls.ts';

const knockMs = 2000;

export interface NodeAgentsOptions {
  /** Its folders are the clusters: `<state>/<cluster>/run/agent.sock`. */
  stateDirectory: string;
  /** Name of this node, for sentences. */
  node: string;
  /** Milliseconds for one call. */
  deadlineMs: number;
  /** Says which nodes have agents of a StorageCluster (undefined: of any); undefined: not known. */
  selection?: (cluster: string | undefined) => Promise<string | undefined>;
}

export interface NodeAgent {
  cluster: string;
  /** Of the cluster on this node; what the agent publishes lies below it. */
  directory: string;
  control: ControlCalls;
}

/** The agents on this node, one a cluster. */
export class NodeAgents {
  readonly #options: NodeAgentsOptions;

  constructor(options: NodeAgentsOptions) {
    this.#options = options;
  }

  /**
   * The agent of a cluster; of the only one on this node when none is named. `FAILED_PRECONDITION` when it does not
   * answer or when there is not exactly one.
   */
  async find(cluster: string | undefined): Promise<NodeAgent> {
    const { stateDirectory, deadlineMs } = this.#options;
    const name = cluster === undefined ? await this.#only() : checkClusterName(cluster);
    const directory = join(stateDirectory, name);
    const socket = join(directory, 'run', 'agent.sock');
    if (Buffer.byteLength(socket) > longestSocketPath) {
      throw new CsiError(
        'FAILED_PRECONDITION',
        `the socket path ${socket} is longer than ${longestSocketPath} bytes; give the StorageCluster a shorter name`,
      );
    }
    const absent = await knock(socket, knockMs);
    if (absent !== undefined) throw await this.#notRunning(name, socket, absent);
    return { cluster: name, directory, control: new SocketCalls(socket, deadlineMs) };
  }

  /** Clusters of which something runs on this node: the holder stays while an agent restarts. */
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
      throw new CsiError(
        'FAILED_PRECONDITION',
        `no agent of a StorageCluster runs on node ${node}${traces}; ${await this.#whereAgentsRun(undefined)}, and look at the agent's pod: kubectl get pods -A -l app.kubernetes.io/component=agent --field-selector spec.nodeName=${node}`,
      );
    }
    if (others.length === 0) return first;
    throw new CsiError(
      'FAILED_PRECONDITION',
      `node ${node} is in several StorageClusters (${clusters.join(', ')}); name one of them by the attribute cluster`,
    );
  }

  async #notRunning(cluster: string, socket: string, reason: string): Promise<CsiError> {
    const { node } = this.#options;
    return new CsiError(
      'FAILED_PRECONDITION',
      `the agent of StorageCluster ${cluster} does not run on node ${node} (${reason} at ${socket}); ${await this.#whereAgentsRun(cluster)}, and look at its pod: kubectl get pods -A -l hearth.storage/cluster=${cluster} --field-selector spec.nodeName=${node}`,
    );
  }

  /** Names the label that the node lacks, if its labels are the reason. */
  async #whereAgentsRun(cluster: string | undefined): Promise<string> {
    const known = await this.#options.selection?.(cluster);
    if (known !== undefined) return known;
    return cluster === undefined
      ? 'check that a node group of one selects this node (kubectl get storageclusters)'
      : 'check that one of its node groups selects this node';
  }
}
