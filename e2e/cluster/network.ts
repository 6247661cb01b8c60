import { must, until } from '@hearth/common/testing';
import type { Machine } from './machine/machine.ts';

export type Family = 'IPv4' | 'IPv6';

/** Addresses of one family in a cluster; `index` as in Network. */
class Addresses {
  readonly family: Family;
  readonly hostAddress: string;
  readonly controlAddress: string;
  readonly nodeRange: string;
  readonly podRange: string;
  readonly serviceRange: string;
  /** The route to everything. */
  readonly defaultRange: string;
  readonly #index: number;

  constructor(index: number, family: Family) {
    this.family = family;
    this.#index = index;
    this.hostAddress = this.nodeAddress(254);
    this.controlAddress = this.nodeAddress(253);
    const isIPv4 = family === 'IPv4';
    this.nodeRange = isIPv4 ? `10.250.${index}.0/24` : `fd00:250:${index}::/64`;
    this.podRange = isIPv4 ? `10.${200 + index}.0.0/16` : `fd00:200:${index}::/48`;
    this.serviceRange = isIPv4 ? `10.${100 + index}.0.0/16` : `fd00:100:${index}::/112`;
    this.defaultRange = isIPv4 ? '0.0.0.0/0' : '::/0';
  }

  /** `node` counts from 1. */
  nodeAddress(node: number): string {
    return this.family === 'IPv4' ? `10.250.${this.#index}.${node}` : `fd00:250:${this.#index}::${node}`;
  }

  podRangeOf(node: number): string {
    return this.family === 'IPv4' ? `10.${200 + this.#index}.${node}.0/24` : `fd00:200:${this.#index}:${node}::/64`;
  }

  get forwarding(): string {
    return this.family === 'IPv4' ? 'net.ipv4.ip_forward' : 'net.ipv6.conf.all.forwarding';
  }

  /** Nobody else has the addresses of IPv6, so nothing waits until the kernel has looked (`nodad`). */
  add(address: string, device: string): Command {
    const isIPv4 = this.family === 'IPv4';
    const [, length = ''] = this.nodeRange.split('/');
    const range = `${address}/${length}`;
    return ['ip', isIPv4 ? '-4' : '-6', 'address', 'add', range, 'dev', device, ...(isIPv4 ? [] : ['nodad'])];
  }

  route(...words: string[]): Command {
    return ['ip', this.family === 'IPv4' ? '-4' : '-6', 'route', ...words];
  }
}

/** Addresses of one cluster; `index` (0 to 31) keeps the clusters of one host apart. */
export class Network {
  /** The first one is that of the API server, and of services that ask for no other. */
  readonly families: readonly Family[];
  /** Device of the host. */
  readonly device: string;
  readonly hostAddress: string;
  /** The host alone, as a range. */
  readonly hostRange: string;
  readonly controlAddress: string;
  /** The address of the service `kubernetes`: the first of its range. */
  readonly apiServiceAddress: string;
  readonly #all: readonly Addresses[];
  readonly #index: number;

  constructor(index: number, families: readonly Family[]) {
    this.#index = index;
    this.families = families;
    this.device = deviceName(index);
    this.#all = families.map((family) => new Addresses(index, family));
    const isIPv4 = families[0] === 'IPv4';
    const [first] = this.#all as [Addresses];
    this.hostAddress = first.hostAddress;
    this.hostRange = `${this.hostAddress}/${isIPv4 ? 32 : 128}`;
    this.controlAddress = first.controlAddress;
    this.apiServiceAddress = isIPv4 ? `10.${100 + index}.0.1` : `fd00:100:${index}::1`;
  }

  get nodeRanges(): string[] {
    return this.#all.map(({ nodeRange }) => nodeRange);
  }

  get podRanges(): string[] {
    return this.#all.map(({ podRange }) => podRange);
  }

  get serviceRanges(): string[] {
    return this.#all.map(({ serviceRange }) => serviceRange);
  }

  get defaultRanges(): string[] {
    return this.#all.map(({ defaultRange }) => defaultRange);
  }

  /** One of each family. `node` counts from 1. */
  nodeAddresses(node: number): string[] {
    return this.#all.map((addresses) => addresses.nodeAddress(node));
  }

  podRangesOf(node: number): string[] {
    return this.#all.map((addresses) => addresses.podRangeOf(node));
  }

  /**
   * Makes the bridge in the control machine and the host's one device to it. The host reaches nodes, pods and services
   * through the control machine, and they reach the host at `hostAddress`. All of it goes when the control machine ends.
   */
  async connectHost(control: Machine): Promise<void> {
    await must('ip', 'link', 'add', this.device, 'type', 'veth', 'peer', 'name', 'host', 'netns', String(control.pid));
    // A bridge without an address of its own takes the lowest of its ports' and changes it as nodes come and go: who
    // remembers the former one would reach nothing for up to a minute.
    const hardware = `02:00:0a:fa:${this.#index.toString(16).padStart(2, '0')}:fd`;
    await control.must('ip', 'link', 'add', 'bridge', 'address', hardware, 'type', 'bridge');
    for (const one of this.#all) await control.must(...one.add(one.controlAddress, 'bridge'));
    await control.must('ip', 'link', 'set', 'host', 'master', 'bridge', 'up');
    await control.must('ip', 'link', 'set', 'bridge', 'up');
    await this.#forward(control);
    // For the API server itself, which calls webhooks: kube-proxy's rules turn packets around that have any route.
    for (const one of this.#all) {
      await control.must(...one.route('add', one.serviceRange, 'dev', 'bridge'));
      await must(...one.add(one.hostAddress, this.device));
    }
    await must('ip', 'link', 'set', this.device, 'up');
    for (const one of this.#all) {
      for (const range of [one.podRange, one.serviceRange]) {
        await must(...one.route('add', range, 'via', one.controlAddress, 'dev', this.device));
      }
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
    for (const one of this.#all) await machine.must(...one.add(one.nodeAddress(node), 'eth0'));
    await machine.must('ip', 'link', 'set', 'eth0', 'up');
    await this.#forward(machine);
    for (const one of this.#all) {
      await machine.must(...one.route('add', one.defaultRange, 'via', one.controlAddress));
      await control.must(...one.route('replace', one.podRangeOf(node), 'via', one.nodeAddress(node)));
    }
  }

  async #forward(machine: Machine): Promise<void> {
    for (const { forwarding } of this.#all) await machine.must('sysctl', '-qw', `${forwarding}=1`);
  }
}

type Command = [program: string, ...words: string[]];

export function deviceName(index: number): string {
  return `hearth${index}`;
}

export const maximumClusters = 32;
