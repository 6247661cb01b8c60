import { type LookupAddress, type LookupOptions, lookup as systemLookup } from 'node:dns';
import { lookup as resolveName } from 'node:dns/promises';
import { BlockList, isIP, isIPv6, type LookupFunction } from 'node:net';
import { HearthError } from '@hearth/common';

interface GuardedRange {
  what: string;
  ranges: [address: string, prefix: number][];
}

// IANA special-purpose address registries (RFC 6890 and its updates): addresses of no public host.
const guardedRanges: GuardedRange[] = [
  {
    what: 'loopback',
    ranges: [
      ['127.0.0.0', 8],
      ['::1', 128],
    ],
  },
  {
    what: 'link-local',
    ranges: [
      ['169.254.0.0', 16],
      ['fe80::', 10],
    ],
  },
  {
    what: 'private',
    ranges: [
      ['10.0.0.0', 8],
      ['172.16.0.0', 12],
      ['192.168.0.0', 16],
      ['100.64.0.0', 10],
      ['198.18.0.0', 15],
      ['fc00::', 7],
      ['fec0::', 10],
    ],
  },
  {
    what: 'unspecified',
    ranges: [
      ['0.0.0.0', 8],
      ['::', 128],
    ],
  },
  {
    what: 'multicast or reserved',
    ranges: [
      ['224.0.0.0', 4],
      ['240.0.0.0', 4],
      ['192.0.0.0', 24],
      ['ff00::', 8],
    ],
  },
];

// IPv6 forms that embed an IPv4 address, with its offset in the 16 bytes (RFC 4291, 6052, 8215, 3056).
const embeddings: { prefix: string; length: number; offset: number }[] = [
  { prefix: '::ffff:0:0', length: 96, offset: 12 },
  { prefix: '::', length: 96, offset: 12 },
  { prefix: '64:ff9b::', length: 96, offset: 12 },
  { prefix: '64:ff9b:1::', length: 48, offset: 12 },
  { prefix: '2002::', length: 16, offset: 2 },
];

const guarded = guardedRanges.map(({ what, ranges }) => ({ what, list: blockList(ranges) }));
const embedded = embeddings.map(({ prefix, length, offset }) => ({ list: blockList([[prefix, length]]), offset }));

/**
 * Decides which hosts an origin may be read from. A tenant must not use an agent to reach hosts that only the agent can
 * reach, so loopback, link-local (cloud metadata) and private addresses are refused unless listed or allowed by the
 * source. Every socket uses `lookup`, so the checked address is the connected one, and a name that changes between
 * check and connection gains nothing.
 */
export class AddressPolicy {
  readonly #allowPrivate: boolean;
  readonly #ranges = new BlockList();
  readonly #resolve: (name: string) => Promise<{ address: string }[]>;

  /**
   * `allowed`: addresses and CIDR ranges in the engine's syntax; throws `InvalidArgument` with a malformed one.
   * `resolve`: used by `checkHost`; tests replace the system's.
   */
  constructor(
    allowPrivate: boolean,
    allowed: readonly string[],
    resolve: (name: string) => Promise<{ address: string }[]> = (name) => resolveName(name, { all: true }),
  ) {
    this.#allowPrivate = allowPrivate;
    this.#resolve = resolve;
    for (const item of allowed) this.#allow(item);
  }

  /** Throws `PermissionDenied` when the URL's host is a refused address. `lookup` checks names. */
  checkUrl(url: URL): void {
    const host = url.hostname.replace(/^\[|\]$/g, '');
    if (isIP(host) !== 0) this.#check(host, host);
  }

  /**
   * Like `checkUrl`, and also looks names up, for URLs that other programs will connect to. A name that does not
   * resolve passes.
   */
  async checkHost(url: URL): Promise<void> {
    this.checkUrl(url);
    const host = url.hostname.replace(/^\[|\]$/g, '');
    if (this.#allowPrivate || isIP(host) !== 0) return;
    const addresses = await this.#resolve(host).catch(() => []);
    for (const { address } of addresses) this.#check(address, host);
  }

  /** Like dns.lookup, but fails with `PermissionDenied` for a name with any refused address. */
  readonly lookup: LookupFunction = (host, options, callback) => {
    systemLookup(host, { ...options, all: true } as LookupOptions & { all: true }, (error, addresses) => {
      if (error !== null) return callback(error, []);
      try {
        for (const { address } of addresses) this.#check(address, host);
      } catch (refused) {
        return callback(refused as HearthError, []);
      }
      if (options.all === true) return callback(null, addresses);
      const first = addresses[0] as LookupAddress;
      callback(null, first.address, first.family);
    });
  };

  #allow(item: string): void {
    const [address = '', length, ...more] = item.split('/');
    const family = isIP(address);
    const bits = family === 4 ? 32 : 128;
    const prefix = length === undefined ? bits : /^\d{1,3}$/.test(length) ? Number(length) : Number.NaN;
    if (family === 0 || more.length > 0 || !(prefix >= 0 && prefix <= bits)) {
      throw new HearthError(
        'InvalidArgument',
        `the allowed address "${item}" is neither an address nor a range of addresses; examples: 10.1.2.3, 10.0.0.0/8, fd00::/8`,
      );
    }
    this.#ranges.addSubnet(address, prefix, family === 4 ? 'ipv4' : 'ipv6');
  }

  #check(address: string, host: string): void {
    if (this.#allowPrivate) return;
    const forms = [address, ...embeddedIpv4(address)];
    if (forms.some((form) => this.#ranges.check(form, familyOf(form)))) return;
    for (const form of forms) {
      const range = guarded.find(({ list }) => list.check(form, familyOf(form)));
      if (range === undefined) continue;
      const target = host === address ? address : `${host} (${address})`;
      throw new HearthError(
        'PermissionDenied',
        `the origin's host ${target} has a ${range.what} address, which origins may not use; ` +
          'list the address in origins.allowedNetworks of the agents (spec.origins.allowedNetworks of the StorageCluster), ' +
          'or add the dataset with --allow-private',
      );
    }
  }
}

function blockList(ranges: [string, number][]): BlockList {
  const list = new BlockList();
  for (const [address, prefix] of ranges) list.addSubnet(address, prefix, familyOf(address));
  return list;
}

function familyOf(address: string): 'ipv4' | 'ipv6' {
  return isIPv6(address) ? 'ipv6' : 'ipv4';
}

function embeddedIpv4(address: string): string[] {
  if (!isIPv6(address)) return [];
  const found: string[] = [];
  for (const { list, offset } of embedded) {
    if (list.check(address, 'ipv6')) found.push([...ipv6Bytes(address).subarray(offset, offset + 4)].join('.'));
  }
  return found;
}

/** The 16 bytes of a valid IPv6 address in any spelling, with any zone. */
function ipv6Bytes(address: string): Uint8Array {
  // The URL parser writes addresses without an embedded dotted part.
  const canonical = new URL(`http://[${address.replace(/%.*$/, '')}]`).hostname.slice(1, -1);
  const [head = '', tail = ''] = canonical.split('::');
  const before = head === '' ? [] : head.split(':');
  const after = tail === '' ? [] : tail.split(':');
  const zeros = new Array<string>(8 - before.length - after.length).fill('0');
  const bytes = new Uint8Array(16);
  [...before, ...zeros, ...after].forEach((group, index) => {
    new DataView(bytes.buffer).setUint16(2 * index, Number.parseInt(group, 16));
  });
  return bytes;
}
