import { must, until } from '@hearth/common/testing';
import type { Machine } from './machine/machine.ts';

/** Addresses of one cluster; `index` (0 to 31) keeps the clusters of one host apart. */
export class Network {
  readonly index: number;
  /** Device of the host. */
  readonly device: string;
  readonly hostAddress: string;
  readonly controlAddress: string;
  readonly nodeRange: string;
  readonly podRange: string;
  readonly serviceRange: string;
  /** The address of the service `kubernetes`: the first of its range. */
  readonly apiServiceAddress: string;

  constructor(index: number) {
    this.index = index;
    this.device = deviceName(index);
    this.hostAddress = `10.250.${index}.254`;
    this.controlAddress = `10.250.${index}.253`;
    this.nodeRange = `10.250.${index}.0/24`;
    this.podRange = `10.${200 + index}.0.0/16`;
    this.serviceRange = `10.${100 + index}.0.0/16`;
    this.apiServiceAddress = `10.${100 + index}.0.1`;
  }

  /** `node` counts from 1. */
  nodeAddress(node: number): string {
    return `10.250.${this.index}.${node}`;
  }

  podRangeOf(node: number): string {
    return `10.${200 + this.index}.${node}.0/24`;
  }

  /**
   * Makes the bridge in the control machine and the host's one device to it. The host reaches nodes, pods and services
   * through the control machine, and they reach the host at `hostAddress`. All of it goes when the control machine ends.
   */
  async connectHost(control: Machine): Promise<void> {
    await must('ip', 'link', 'add', this.device, 'type', 'veth', 'peer', 'name', 'host', 'netns', String(control.pid));
    // A bridge without an address of its own takes the lowest of its ports' and changes it as nodes come and go: who
    // remembers the former one would reach nothing for up to a minute.
    const hardware = [0x02, 0, ...this.controlAddress.split('.').map(Number)];
    const address = hardware.map((byte) => byte.toString(16).padStart(2, '0')).join(':');
    await control.must('ip', 'link', 'add', 'bridge', 'address', address, 'type', 'bridge');
    await control.must('ip', 'address', 'add', `${this.controlAddress}/24`, 'dev', 'bridge');
    await control.must('ip', 'link', 'set', 'host', 'master', 'bridge', 'up');
    await control.must('ip', 'link', 'set', 'bridge', 'up');
    await control.must('sysctl', '-qw', 'net.ipv4.ip_forward=1');
    // For the API server itself, which calls webhooks: kube-proxy's rules turn packets around that have any route.
    await control.must('ip', 'route', 'add', this.serviceRange, 'dev', 'bridge');
    await must('ip', 'address', 'add', `${this.hostAddress}/24`, 'dev', this.device);
    await must('ip', 'link', 'set', this.device, 'up');
    for (const range of [this.podRange, this.serviceRange]) {
      await must('ip', 'route', 'add', range, 'via', this.controlAddress, 'dev', this.device);
    }
  }

  /** Waits until what connected a node that was stopped has gone: the kernel removes it a moment later. */
  async disconnected(control: Machine, node: number): Promise<void> {
    await until(`the end of the network of node ${node}`, async () => {
      return (await control.run('ip', ['link', 'show', `node${node}`])).code !== 0;
    });
  }

  /** Connects node number `node` (from 1) to the bridge, with a route to its pods. */
  async connectNode(control: Machine, machine: Machine, node: number): Promise<void> {
    const port = `node${node}`;
    await must(
      'ip',
      'link',
      'add',
      'eth0',
      'netns',
      String(machine.pid),
      'type',
      'veth',
      'peer',
      'name',
      port,
      'netns',
      String(control.pid),
    );
    await control.must('ip', 'link', 'set', port, 'master', 'bridge', 'up');
    await machine.must('ip', 'address', 'add', `${this.nodeAddress(node)}/24`, 'dev', 'eth0');
    await machine.must('ip', 'link', 'set', 'eth0', 'up');
    await machine.must('ip', 'route', 'add', 'default', 'via', this.controlAddress);
    await machine.must('sysctl', '-qw', 'net.ipv4.ip_forward=1');
    await control.must('ip', 'route', 'replace', this.podRangeOf(node), 'via', this.nodeAddress(node));
  }
}

export function deviceName(index: number): string {
  return `hearth${index}`;
}

export const maximumClusters = 32;
