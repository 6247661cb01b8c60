import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { until } from '@hearth/common/testing';
import type { ControlPlane } from './control_plane.ts';
import { startKubeProxy } from './kube_proxy.ts';
import { createControlGroup, removeControlGroup } from './machine/cgroups.ts';
import type { Machine } from './machine/machine.ts';
import { writeSettings } from './settings.ts';

const socket = '/run/containerd/containerd.sock';
/** Of Debian's containernetworking-plugins. */
const pluginFolder = '/usr/lib/cni';

/** How a node registers itself. */
export interface Registration {
  labels?: Record<string, string>;
  taints?: { key: string; value?: string; effect: string }[];
}

/** A Kubernetes node: containerd, kube-proxy and kubelet on a machine of its own. */
export class ClusterNode {
  readonly machine: Machine;
  /** From 1. */
  readonly number: number;
  /** One of each family. */
  readonly addresses: readonly string[];
  readonly #controlGroup: string;
  readonly #plane: ControlPlane;
  readonly #programs: Record<string, string>;
  readonly #logs: string;

  constructor(
    machine: Machine,
    number: number,
    controlGroup: string,
    plane: ControlPlane,
    programs: Record<string, string>,
    logs: string,
  ) {
    this.machine = machine;
    this.number = number;
    this.addresses = plane.network.nodeAddresses(number);
    this.#controlGroup = controlGroup;
    this.#plane = plane;
    this.#programs = programs;
    this.#logs = logs;
  }

  get name(): string {
    return this.machine.name;
  }

  /** Starts everything, with the images of these archives; the node is ready some seconds later. */
  async start(images: string[], registration: Registration = {}): Promise<void> {
    const { network } = this.#plane;
    createControlGroup(this.#controlGroup);
    await network.connectNode(this.#plane.machine, this.machine, this.number);
    this.#writeNetworkConfiguration();
    await this.#plane.issueKubeconfig(this.name, `system:node:${this.name}`, ['system:nodes']);
    await this.startContainerd();
    await Promise.all(images.map((image) => this.importImage(image)));
    this.#writeKubeletConfiguration(registration);
    await startKubeProxy(this.machine, {
      program: this.#programs['kube-proxy'] as string,
      kubeconfig: this.#plane.kubeconfig('kube-proxy'),
      network,
      node: this.name,
      logPath: this.#log('kube-proxy'),
    });
    await this.startKubelet(registration.labels);
  }

  /** Ends everything on the node at once, as a power cut does. */
  async cutPower(): Promise<void> {
    await this.machine.stop();
    // A kubelet that found the control groups of before would look for their tasks first.
    await removeControlGroup(this.#controlGroup);
    await this.#plane.network.disconnected(this.#plane.machine, this.number);
  }

  /** Boots a node whose power was cut: its disks are as they were, and nothing else is. */
  async boot(): Promise<void> {
    await this.machine.restart();
    await this.start([]);
  }

  async startContainerd(): Promise<void> {
    const config = join(this.machine.folder, 'containerd.toml');
    writeFileSync(config, containerdConfiguration(this.#programs.runc as string, this.machine.folder));
    await this.machine.startService('containerd', this.#programs.containerd as string, ['--config', config], {
      logPath: this.#log('containerd'),
      path: dirname(this.#programs['containerd-shim-runc-v2'] as string),
    });
    await until(`containerd on ${this.name}`, async () => (await this.ctr(['version'])).code === 0);
  }

  async startKubelet(labels: Record<string, string> = {}): Promise<void> {
    const pairs = Object.entries(labels).map(([key, value]) => `${key}=${value}`);
    const args = [
      `--config=${join(this.machine.folder, 'kubelet.json')}`,
      `--kubeconfig=${this.#plane.kubeconfig(this.name)}`,
      `--hostname-override=${this.name}`,
      `--node-ip=${this.addresses.join()}`,
      ...(pairs.length === 0 ? [] : [`--node-labels=${pairs.join(',')}`]),
    ];
    const options = { logPath: this.#log('kubelet') };
    await this.machine.startService('kubelet', this.#programs.kubelet as string, args, options);
  }

  /** containerd's client, in the namespace of Kubernetes' containers and images. */
  ctr(args: string[], timeoutMs = 300_000) {
    return this.machine.run(this.#programs.ctr as string, ['--address', socket, '--namespace', 'k8s.io', ...args], {
      timeoutMs,
    });
  }

  /** Lets images be pulled from a registry (`HOST:PORT`) that has no certificate; it holds from the next pull on. */
  allowPlainRegistry(registry: string): void {
    const folder = join(this.machine.folder, registryFolder, registry);
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, 'hosts.toml'), `server = "http://${registry}"\n`);
  }

  /** Imports a docker-archive; its images can then be run with `imagePullPolicy: Never`. */
  async importImage(archive: string): Promise<void> {
    const outcome = await this.ctr(['images', 'import', '--digests=false', archive]);
    if (outcome.code !== 0) throw new Error(`import of ${archive} on ${this.name}: ${outcome.stderr}`);
  }

  #log(program: string): string {
    return join(this.#logs, `${this.name}.${program}.log`);
  }

  #writeNetworkConfiguration(): void {
    const folder = join(this.machine.folder, 'cni');
    mkdirSync(folder, { recursive: true });
    writeSettings(join(folder, '10-bridge.conflist'), {
      cniVersion: '1.0.0',
      name: 'pods',
      plugins: [
        {
          type: 'bridge',
          bridge: 'cni0',
          isGateway: true,
          ipMasq: false,
          hairpinMode: true,
          ipam: {
            type: 'host-local',
            ranges: this.#plane.network.podRangesOf(this.number).map((subnet) => [{ subnet }]),
            routes: this.#plane.network.defaultRanges.map((dst) => ({ dst })),
          },
        },
      ],
    });
  }

  #writeKubeletConfiguration({ taints = [] }: Registration): void {
    writeSettings(join(this.machine.folder, 'kubelet.json'), {
      apiVersion: 'kubelet.config.k8s.io/v1beta1',
      kind: 'KubeletConfiguration',
      authentication: {
        anonymous: { enabled: false },
        webhook: { enabled: true },
        x509: { clientCAFile: this.#plane.authority.certificate },
      },
      authorization: { mode: 'Webhook' },
      containerRuntimeEndpoint: `unix://${socket}`,
      // Machines with control groups of version 1 are fine for tests.
      failCgroupV1: false,
      cgroupDriver: 'cgroupfs',
      cgroupRoot: `/${this.#controlGroup}`,
      enforceNodeAllocatable: [],
      failSwapOn: false,
      resolvConf: '',
      volumePluginDir: '/var/lib/kubelet/volume-plugins',
      clusterDomain: 'cluster.local',
      registerWithTaints: taints,
      evictionHard: { 'memory.available': '50Mi', 'nodefs.available': '1%', 'imagefs.available': '1%' },
      imageGCHighThresholdPercent: 100,
      imageGCLowThresholdPercent: 99,
      serializeImagePulls: false,
      // Changes of ConfigMaps and Secrets in pods within seconds.
      syncFrequency: '10s',
      nodeStatusUpdateFrequency: '5s',
      shutdownGracePeriod: '0s',
    });
  }
}

/** Below a machine's folder: what containerd should know of registries, a folder for each. */
const registryFolder = 'registries';

function containerdConfiguration(runc: string, machineFolder: string): string {
  return `version = 3
root = "/var/lib/containerd"
state = "/run/containerd"

[grpc]
  address = "${socket}"

[plugins."io.containerd.internal.v1.opt"]
  path = "/var/lib/containerd/opt"

[plugins."io.containerd.nri.v1.nri"]
  disable = true

[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "local/pause:1"

[plugins."io.containerd.cri.v1.images".registry]
  config_path = "${join(machineFolder, registryFolder)}"

[plugins."io.containerd.cri.v1.runtime"]
  # Lowering oom_score_adj needs CAP_SYS_RESOURCE, which not every machine for tests gives.
  restrict_oom_score_adj = true

  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["${pluginFolder}"]
    conf_dir = "${join(machineFolder, 'cni')}"

  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"

    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      BinaryName = "${runc}"
      SystemdCgroup = false
`;
}
