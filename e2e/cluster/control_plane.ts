import { join } from 'node:path';
import { Authority, type KeyPair, until } from '@hearth/common/testing';
import { apiServerReady, writeKubeconfig } from '@hearth/common/testing/kubernetes';
import { startKubeProxy } from './kube_proxy.ts';
import type { Machine } from './machine/machine.ts';
import type { Network } from './network.ts';

export type ControlProgram = 'etcd' | 'kube-apiserver' | 'kube-controller-manager' | 'kube-scheduler';

/** etcd, API server, controller manager and scheduler on a machine of their own, with the cluster's certificates. */
export class ControlPlane {
  readonly machine: Machine;
  readonly network: Network;
  readonly url: string;
  readonly authority: Authority;
  readonly #programs: Record<string, string>;
  readonly #logs: string;

  constructor(machine: Machine, network: Network, programs: Record<string, string>, logs: string) {
    this.machine = machine;
    this.network = network;
    const host = network.families[0] === 'IPv6' ? `[${network.controlAddress}]` : network.controlAddress;
    this.url = `https://${host}:6443`;
    this.authority = Authority.open(join(machine.folder, 'pki'));
    this.#programs = programs;
    this.#logs = logs;
  }

  /** Path of the kubeconfig of a program or of `admin`, as `start` has written it. */
  kubeconfig(name: string): string {
    return join(this.machine.folder, `${name}.kubeconfig`);
  }

  async start(): Promise<void> {
    Authority.create({ folder: this.authority.folder });
    const { controlAddress, apiServiceAddress } = this.network;
    this.authority.issue({
      file: 'server',
      commonName: 'kube-apiserver',
      names: [
        ...[controlAddress, apiServiceAddress, 'kubernetes', 'kubernetes.default'],
        ...['kubernetes.default.svc', 'kubernetes.default.svc.cluster.local'],
      ],
    });
    this.authority.serviceAccountKeys();
    this.issueKubeconfig('admin', 'admin', ['system:masters']);
    this.issueKubeconfig('kube-controller-manager', 'system:kube-controller-manager');
    this.issueKubeconfig('kube-scheduler', 'system:kube-scheduler');
    this.issueKubeconfig('kube-proxy', 'system:kube-proxy');
    await this.startProgram('etcd');
    await this.startProgram('kube-apiserver');
    await this.ready();
    await this.startProgram('kube-controller-manager');
    await this.startProgram('kube-scheduler');
    await startKubeProxy(this.machine, {
      program: this.#programs['kube-proxy'] as string,
      kubeconfig: this.kubeconfig('kube-proxy'),
      network: this.network,
      // The control plane is no node; any will do.
      node: 'node1',
      logPath: join(this.#logs, 'control.kube-proxy.log'),
    });
  }

  /** Waits until the API server answers that it is ready. */
  async ready(): Promise<void> {
    const admin = this.#pair('admin');
    await until('kube-apiserver ready', () => apiServerReady(this.url, admin));
  }

  async startProgram(name: ControlProgram): Promise<void> {
    await this.machine.startService(name, this.#programs[name] as string, this.#arguments(name), {
      logPath: join(this.#logs, `control.${name}.log`),
    });
  }

  /** Ends a program as a crash does. */
  async stopProgram(name: ControlProgram): Promise<void> {
    await this.machine.stopService(name, 'KILL');
  }

  /** Makes a client certificate for a user and a kubeconfig with it; returns its path. */
  issueKubeconfig(name: string, user: string, groups: string[] = []): string {
    const pair = this.authority.issue({ file: name, commonName: user, organizations: groups });
    return writeKubeconfig(this.kubeconfig(name), this.url, pair);
  }

  #pair(name: string): KeyPair {
    const file = join(this.authority.folder, name);
    return { certificate: `${file}.crt`, key: `${file}.key`, authorities: this.authority.certificate };
  }

  #arguments(name: ControlProgram): string[] {
    switch (name) {
      case 'etcd':
        return [
          `--data-dir=${join(this.machine.folder, 'etcd')}`,
          '--unsafe-no-fsync',
          '--log-level=warn',
          '--listen-client-urls=http://127.0.0.1:2379',
          '--advertise-client-urls=http://127.0.0.1:2379',
          '--listen-peer-urls=http://127.0.0.1:2380',
        ];
      case 'kube-apiserver':
        return this.#apiServerArguments();
      case 'kube-controller-manager':
        return [
          ...this.#clientArguments(name),
          `--root-ca-file=${this.authority.certificate}`,
          `--service-account-private-key-file=${join(this.authority.folder, 'service-accounts.key')}`,
          '--use-service-account-credentials=true',
          // It makes this folder, by default on the host.
          `--flex-volume-plugin-dir=${join(this.machine.folder, 'volume-plugins')}`,
        ];
      case 'kube-scheduler':
        return this.#clientArguments(name);
    }
  }

  #clientArguments(name: string): string[] {
    const kubeconfig = this.kubeconfig(name);
    return [
      `--kubeconfig=${kubeconfig}`,
      `--authentication-kubeconfig=${kubeconfig}`,
      `--authorization-kubeconfig=${kubeconfig}`,
      '--bind-address=127.0.0.1',
      '--leader-elect=false',
    ];
  }

  #apiServerArguments(): string[] {
    const server = this.#pair('server');
    const admin = this.#pair('admin');
    return [
      '--etcd-servers=http://127.0.0.1:2379',
      // Pods reach 10.x.0.1 at the address that is advertised, so it may not be loopback.
      `--bind-address=${this.network.controlAddress}`,
      `--advertise-address=${this.network.controlAddress}`,
      '--secure-port=6443',
      `--service-cluster-ip-range=${this.network.serviceRanges.join()}`,
      `--tls-cert-file=${server.certificate}`,
      `--tls-private-key-file=${server.key}`,
      `--client-ca-file=${this.authority.certificate}`,
      `--kubelet-client-certificate=${admin.certificate}`,
      `--kubelet-client-key=${admin.key}`,
      '--kubelet-preferred-address-types=InternalIP',
      '--service-account-issuer=https://kubernetes.default.svc',
      `--service-account-key-file=${join(this.authority.folder, 'service-accounts.pub')}`,
      `--service-account-signing-key-file=${join(this.authority.folder, 'service-accounts.key')}`,
      '--authorization-mode=Node,RBAC',
      '--enable-admission-plugins=NodeRestriction',
      '--allow-privileged=true',
    ];
  }
}
