import assert from 'node:assert/strict';
import type { LookupAddress } from 'node:dns';
import { AddressPolicy } from './address_policy.ts';

function refused(policy: AddressPolicy, host: string): boolean {
  try {
    policy.checkUrl(new URL(`http://${host}/x`));
    return false;
  } catch (error) {
    assert.equal((error as { code: string }).code, 'PermissionDenied');
    return true;
  }
}

function lookUp(policy: AddressPolicy, host: string, all: boolean): Promise<string | LookupAddress[]> {
  return new Promise((resolve, reject) => {
    policy.lookup(host, { all }, (error, address) => (error === null ? resolve(address) : reject(error)));
  });
}

describe('AddressPolicy', () => {
  const strict = new AddressPolicy(false, []);

  it('refuses loopback, link-local, private and special addresses in every spelling', () => {
    const hosts = [
      '127.0.0.1',
      '127.9.9.9',
      '2130706433',
      '0x7f.1',
      '169.254.169.254',
      '10.1.2.3',
      '172.16.0.1',
      '172.31.255.255',
      '192.168.1.1',
      '100.64.0.1',
      '0.0.0.0',
      '224.0.0.1',
      '255.255.255.255',
      '[::1]',
      '[::]',
      '[fe80::1]',
      '[fd00::1]',
      '[::ffff:127.0.0.1]',
      '[::ffff:a9fe:a9fe]',
      '[::127.0.0.1]',
      '[64:ff9b::10.0.0.1]',
      '[2002:7f00:1::]',
      '[ff02::1]',
    ];
    assert.deepEqual(
      hosts.filter((host) => !refused(strict, host)),
      [],
    );
  });

  it('lets public addresses pass', () => {
    const hosts = [
      '1.1.1.1',
      '172.32.0.1',
      '172.15.0.1',
      '[2606:4700::1111]',
      '[64:ff9b::1.1.1.1]',
      '[::ffff:1.1.1.1]',
    ];
    assert.deepEqual(
      hosts.filter((host) => refused(strict, host)),
      [],
    );
  });

  it('lets listed ranges and addresses pass, and everything when private addresses are allowed', () => {
    const listed = new AddressPolicy(false, ['10.0.0.0/8', '192.168.1.1', 'fd00::/8']);
    assert.equal(refused(listed, '10.255.0.1'), false);
    assert.equal(refused(listed, '[::ffff:10.0.0.1]'), false);
    assert.equal(refused(listed, '192.168.1.1'), false);
    assert.equal(refused(listed, '192.168.1.2'), true);
    assert.equal(refused(listed, '[fd12::1]'), false);
    assert.equal(refused(listed, '127.0.0.1'), true);
    assert.equal(refused(new AddressPolicy(true, []), '127.0.0.1'), false);
  });

  it('checks names after resolution, in both forms of lookup', async () => {
    for (const all of [true, false]) {
      await assert.rejects(lookUp(strict, 'localhost', all), {
        code: 'PermissionDenied',
        message: /localhost \(.*loopback.*spec\.origins\.allowedNetworks of the StorageCluster/,
      });
    }
    const allowed = new AddressPolicy(false, ['127.0.0.0/8', '::1']);
    assert.equal(typeof (await lookUp(allowed, 'localhost', false)), 'string');
    assert.ok(Array.isArray(await lookUp(allowed, 'localhost', true)));
  });

  it('checks the hosts that others will connect to', async () => {
    await assert.rejects(strict.checkHost(new URL('https://localhost/x')), { code: 'PermissionDenied' });
    await assert.rejects(strict.checkHost(new URL('https://[::1]/x')), { code: 'PermissionDenied' });
    await strict.checkHost(new URL('https://1.1.1.1/x'));
    await new AddressPolicy(true, []).checkHost(new URL('https://localhost/x'));
  });

  it('names a malformed entry of the list', () => {
    for (const item of ['10.0.0.0/33', '10.0.0.0/8/8', '10.0.0.0/', 'fd00::/129', 'localhost', '', '/8']) {
      assert.throws(() => new AddressPolicy(false, [item]), { code: 'InvalidArgument' }, item);
    }
  });
});
