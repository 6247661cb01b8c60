import { must, until } from '@hearth/common/testing';
import type { Machine } from './machine/machine.ts';

/** The family of all addresses of a cluster: none has both, but for loopback. */
export type Family = 'IPv4' | 'IPv6';

/** Addresses of one cluster; `index` (0 to 31) keeps the clusters of one host apart. */
export class Network {
  readonly index: number;
  readonly family: Family;
  /** Device of the host. */
  readonly device: string;
  readonly hostAddress: string;
  /** The host alone, as a range. */
  readonly hostRange: string;
  readonly controlAddress: string;
  readonly nodeRange: string;
  readonly podRange: string;
  readonly serviceRange: string;
  /** The address of the service `kubernetes`: the first of its range. */
  readonly apiServiceAddress: string;

  constructor(index: number, family: Family) {
    this.index = index;
    this.family = family;
    this.device = deviceName(index);
    this.hostAddress = this.nodeAddress(254);
    this.controlAddress = this.nodeAddress(253);
    const isIPv4 = family === 'IPv4';
    this.hostRange = `${this.hostAddress}/${isIPv4 ? 32 : 128}`;
    this.nodeRange = isIPv4 ? `10.250.${index}.0/24` : `fd00:250:${index}::/64`;
    this.podRange = isIPv4 ? `10.${200 + index}.0.0/16` : `fd00:200:${index}::/48`;
    this.serviceRange = isIPv4 ? `10.${100 + index}.0.0/16` : `fd00:100:${index}::/112`;
    this.apiServiceAddress = isIPv4 ? `10.${100 + index}.0.1` : `fd00:100:${index}::1`;
  }

  /** `node` counts from 1. */
  nodeAddress(node: number): string {
    return this.family === 'IPv4' ? `10.250.${this.index}.${node}` : `fd00:250:${this.index}::${node}`;
  }

  podRangeOf(node: number): string {
    return this.family === 'IPv4' ? `10.${200 + this.index}.${node}.0/24` : `fd00:200:${this.index}:${node}::/64`;
  }

  /** The route to everything. */
  get defaultRange(): string {
    return this.family === 'IPv4' ? '0.0.0.0/0' : '::/0';
  }

  /**
   * Makes the bridge in the control machine and the host's one device to it. The host reaches nodes, pods and services
   * through the control machine, and they reach the host at `hostAddress`. All of it goes when the control machine ends.
   */
  async connectHost(control: Machine): Promise<void> {
    await must('ip', 'link', 'add', this.device, 'type', 'veth', 'peer', 'name', 'host', 'netns', String(control.pid));
    // A bridge without an address of its own takes the lowest of its ports' and changes it as nodes come and go: who
    // remembers the former one would reach nothing for up to a minute.
    const hardware = `02:00:0a:fa:${this.index.toString(16).padStart(2, '0')}:fd`;
    await control.must('ip', 'link', 'add', 'bridge', 'address', hardware, 'type', 'bridge');
    await control.must(...this.#addAddress(this.controlAddress, 'bridge'));
    await control.must('ip', 'link', 'set', 'host', 'master', 'bridge', 'up');
    await control.must('ip', 'link', 'set', 'bridge', 'up');
    await this.#forward(control);
    // For the API server itself, which calls webhooks: kube-proxy's rules turn packets around that have any route.
    await control.must(...this.#route('add', this.serviceRange, 'dev', 'bridge'));
    await must(...this.#addAddress(this.hostAddress, this.device));
    await must('ip', 'link', 'set', this.device, 'up');
    for (const range of [this.podRange, this.serviceRange]) {
      await must(...this.#route('add', range, 'via', this.controlAddress, 'dev', this.device));
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
    await machine.must(...this.#addAddress(this.nodeAddress(node), 'eth0'));
    await machine.must('ip', 'link', 'set', 'eth0', 'up');
    await machine.must(...this.#route('add', this.defaultRange, 'via', this.controlAddress));
    await this.#forward(machine);
    await control.must(...this.#route('replace', this.podRangeOf(node), 'via', this.nodeAddress(node)));
  }

  async #forward(machine: Machine): Promise<void> {
    const setting = this.family === 'IPv4' ? 'net.ipv4.ip_forward' : 'net.ipv6.conf.all.forwarding';
    await machine.must('sysctl', '-qw', `${setting}=1`);
  }

  /** Nobody else has the addresses of IPv6, so nothing waits until the kernel has looked (`nodad`). */
  #addAddress(address: string, device: string): Command {
    const isIPv4 = this.family === 'IPv4';
    const [, length = ''] = this.nodeRange.split('/');
    const range = `${address}/${length}`;
    return ['ip', isIPv4 ? '-4' : '-6', 'address', 'add', range, 'dev', device, ...(isIPv4 ? [] : ['nodad'])];
  }

  #route(...words: string[]): Command {
    return ['ip', this.family === 'IPv4' ? '-4' : '-6', 'route', ...words];
  }
}

type Command = [program: string, ...words: string[]];

export function deviceName(index: number): string {
  return `hearth${index}`;
}

export const maximumClusters = 32;
