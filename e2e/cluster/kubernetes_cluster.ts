import { cpSync, existsSync, mkdirSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type Outcome, run, tools, until } from '@hearth/common/testing';
import { ControlPlane } from './control_plane.ts';
import { guard } from './guard.ts';
import { basicImages } from './images/basic_images.ts';
import { Machine } from './machine/machine.ts';
import { type Family, Network } from './network.ts';
import { ClusterNode, type Registration } from './node.ts';
import {
  type ClusterRecord,
  controlGroupOf,
  folderOf,
  machinesFolder,
  readRecord,
  recordNodes,
  remove,
  removeOrphans,
  reserve,
} from './state.ts';

/** Programs and images of a cluster; the first start on a machine builds all of them. */
export const clusterPrograms = [
  ...['etcd', 'kube-apiserver', 'kube-controller-manager', 'kube-scheduler', 'kube-proxy', 'kubelet', 'kubectl'],
  ...['containerd', 'containerd-shim-runc-v2', 'ctr', 'runc', 'helm'],
];

export interface ClusterOptions {
  name: string;
  /** 2 when not given. */
  nodes?: number;
  /** The cluster ends with this process, in whatever way that ends. Otherwise it stays until it is stopped. */
  owned?: boolean;
  /** See Network; IPv4 alone when not given. */
  families?: readonly Family[];
}

/**
 * A real Kubernetes cluster on this host: a control plane and nodes, each on a Machine of its own, with pod networking
 * and services. Needs root. Everything of it is in one folder and in its machines; nothing else on the host changes
 * but one network device with its routes.
 */
export class KubernetesCluster implements AsyncDisposable {
  readonly name: string;
  readonly folder: string;
  readonly network: Network;
  readonly plane: ControlPlane;
  readonly nodes: ClusterNode[] = [];
  readonly #record: ClusterRecord;
  readonly #programs: Record<string, string>;
  #guard: AsyncDisposable | undefined;

  private constructor(record: ClusterRecord, control: Machine, programs: Record<string, string>) {
    this.name = record.name;
    this.folder = folderOf(record.name);
    this.network = new Network(record.index, record.families);
    this.plane = new ControlPlane(control, this.network, programs, this.logFolder);
    this.#record = record;
    this.#programs = programs;
  }

  /**
   * Starts a cluster and waits until its nodes are ready: about ten seconds on two cores. Removes clusters that
   * interrupted runs have left first.
   */
  static async start(options: ClusterOptions): Promise<KubernetesCluster> {
    const programs = await tools(clusterPrograms);
    const images = await basicImages();
    await removeOrphans();
    const record = await reserve(options.name, options.nodes ?? 2, options.owned ?? false, options.families);
    const guarding = options.owned ? await guard(record.name) : undefined;
    try {
      const control = await Machine.start(join(machinesFolder(record.name), 'control'));
      const cluster = new KubernetesCluster(record, control, programs);
      cluster.#guard = guarding;
      await cluster.network.connectHost(control);
      await cluster.plane.start();
      const numbers = Array.from({ length: record.nodes }, (_, index) => index + 1);
      await Promise.all(numbers.map((number) => cluster.#startNode(number, Object.values(images))));
      await cluster.#ready();
      return cluster;
    } catch (error) {
      const logs = join(folderOf(record.name), 'logs');
      const kept = `/tmp/hearth-cluster-${record.name}-logs`;
      cpSync(logs, kept, { recursive: true });
      await remove(record.name);
      await guarding?.[Symbol.asyncDispose]();
      throw new Error(`cluster ${record.name} does not start: ${(error as Error).message}; its logs are in ${kept}`, {
        cause: error,
      });
    }
  }

  /** A cluster that runs; undefined if there is none of that name, or it has been interrupted. */
  static async open(name: string): Promise<KubernetesCluster | undefined> {
    const record = readRecord(name);
    const machine = (part: string) => Machine.open(join(machinesFolder(name), part));
    const control = machine('control');
    if (!record || !control?.isRunning) return undefined;
    const cluster = new KubernetesCluster(record, control, await tools(clusterPrograms));
    for (let number = 1; number <= record.nodes; number++) {
      const node = machine(nodeName(number));
      if (!node?.isRunning) return undefined;
      cluster.nodes.push(cluster.#node(node, number));
    }
    return cluster;
  }

  /** Path of the administrator's kubeconfig. */
  get kubeconfig(): string {
    return this.plane.kubeconfig('admin');
  }

  /** The folder with the output of every program of the cluster: MACHINE.PROGRAM.log. */
  get logFolder(): string {
    return join(this.folder, 'logs');
  }

  /** Folders of kubectl and helm, for a PATH. */
  get programFolders(): string[] {
    return [...new Set(['kubectl', 'helm'].map((name) => dirname(this.#programs[name] as string)))];
  }

  /** Runs kubectl as the administrator. */
  kubectl(args: string[], options: { input?: string; timeoutMs?: number } = {}): Promise<Outcome> {
    const own = ['--kubeconfig', this.kubeconfig, '--cache-dir', join(this.folder, 'kubectl')];
    return run(this.#programs.kubectl as string, [...own, ...args], options);
  }

  /** Runs helm as the administrator, longer than tests let it wait (8 minutes); it keeps nothing in the home folder. */
  helm(args: string[], options: { input?: string; timeoutMs?: number } = {}): Promise<Outcome> {
    const home = join(this.folder, 'helm');
    const environment = {
      KUBECONFIG: this.kubeconfig,
      HELM_CACHE_HOME: join(home, 'cache'),
      HELM_CONFIG_HOME: join(home, 'config'),
      HELM_DATA_HOME: join(home, 'data'),
    };
    return run(this.#programs.helm as string, args, { timeoutMs: 540_000, ...options, environment });
  }

  /** Makes the images of a docker-archive known to every node; pods use them with `imagePullPolicy: Never`. */
  async importImage(archive: string): Promise<void> {
    await Promise.all(this.nodes.map((node) => node.importImage(archive)));
  }

  /** Starts one more node, which registers itself as asked, and waits until it is ready. */
  async addNode(registration: Registration = {}, archives: string[] = []): Promise<ClusterNode> {
    const number = this.nodes.length + 1;
    recordNodes(this.#record, number);
    const images = [...Object.values(await basicImages()), ...archives];
    const node = await this.#startNode(number, images, registration);
    await this.#ready();
    return node;
  }

  /** Takes the last node away, as an autoscaler does: its machine is gone, and so is its Node. */
  async removeNode(): Promise<void> {
    const node = this.nodes.pop();
    if (node === undefined) throw new Error('the cluster has no node');
    await node.cutPower();
    rmSync(node.machine.folder, { recursive: true, force: true });
    recordNodes(this.#record, this.nodes.length);
    await this.kubectl(['delete', 'node', node.name, '--ignore-not-found', '--wait=false']);
  }

  /** Copies the logs of all programs and pods into a folder. */
  collectLogs(target: string): void {
    mkdirSync(target, { recursive: true });
    cpSync(this.logFolder, target, { recursive: true });
    for (const node of this.nodes) {
      const pods = join(node.machine.folder, 'log/pods');
      if (existsSync(pods)) cpSync(pods, join(target, `${node.name}.pods`), { recursive: true, dereference: true });
    }
  }

  /** Ends all of it and removes its folder. */
  async stop(): Promise<void> {
    await remove(this.name);
    await this.#guard?.[Symbol.asyncDispose]();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  #node(machine: Machine, number: number): ClusterNode {
    const group = controlGroupOf(this.name, machine.name);
    return new ClusterNode(machine, number, group, this.plane, this.#programs, this.logFolder);
  }

  async #startNode(number: number, images: string[], registration: Registration = {}): Promise<ClusterNode> {
    const machine = await Machine.start(join(machinesFolder(this.name), nodeName(number)));
    const node = this.#node(machine, number);
    this.nodes[number - 1] = node;
    await node.start(images, registration);
    return node;
  }

  /** All nodes are ready and pods can be created: the default service account comes a moment after its namespace. */
  async #ready(): Promise<void> {
    const ready = ['get', 'nodes', '-o', 'jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}'];
    await until(`${this.#record.nodes} ready nodes`, async () => {
      const words = (await this.kubectl(ready)).stdout.split(' ');
      return words.length === this.#record.nodes && words.every((word) => word === 'True');
    });
    await until('the default service account', async () => {
      return (await this.kubectl(['get', 'serviceaccount', 'default'])).code === 0;
    });
  }
}

const nodeName = (number: number): string => `node${number}`;
