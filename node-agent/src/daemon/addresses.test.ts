import assert from 'node:assert/strict';
import type { NetworkInterfaceInfo } from 'node:os';
import { advertisedAddresses, listeningAddresses } from './addresses.ts';

const one = (address: string, family: 'IPv4' | 'IPv6', internal = false) =>
  ({ address, family, internal }) as NetworkInterfaceInfo;
const interfaces = {
  lo: [one('127.0.0.1', 'IPv4', true)],
  eth0: [one('10.0.0.7', 'IPv4'), one('fe80::1', 'IPv6'), one('fd00::7', 'IPv6')],
  eth1: [one('10.1.0.7', 'IPv4')],
};

describe('advertised addresses', () => {
  it('are the configured ones, else the listening ones', () => {
    const address = { host: '10.9.9.9', port: 1 };
    assert.deepEqual(advertisedAddresses([address], [{ host: '0.0.0.0', port: 2 }], interfaces), [address]);
    assert.deepEqual(advertisedAddresses([], [{ host: '127.0.0.2', port: 2 }], interfaces), [
      { host: '127.0.0.2', port: 2 },
    ]);
  });

  it('name each interface instead of the wildcard', () => {
    const hosts = (host: string) =>
      advertisedAddresses([], [{ host, port: 2 }], interfaces).map((address) => address.host);
    assert.deepEqual(hosts('0.0.0.0'), ['10.0.0.7', '10.1.0.7']);
    assert.deepEqual(hosts('::'), ['10.0.0.7', 'fd00::7', '10.1.0.7']);
    assert.deepEqual(advertisedAddresses([], [{ host: '0.0.0.0', port: 2 }], { lo: interfaces.lo }), [
      { host: '127.0.0.1', port: 2 },
    ]);
  });
});

describe('listening addresses', () => {
  const listen = [{ host: '10.0.0.7', port: 7 }];

  it('are the configured ones without networks', () => {
    assert.deepEqual(listeningAddresses(listen, [], interfaces), listen);
  });

  it('are one address for each interface in the networks, with the configured port', () => {
    assert.deepEqual(listeningAddresses(listen, ['10.1.0.0/16', 'fd00::/64'], interfaces), [
      { host: 'fd00::7', port: 7 },
      { host: '10.1.0.7', port: 7 },
    ]);
    assert.throws(() => listeningAddresses(listen, ['192.168.0.0/16'], interfaces), /no address .*192\.168\.0\.0\/16/);
  });
});
