import assert from 'node:assert/strict';
import { HearthError } from '@hearth/common';
import { parseEtcdAddress } from './etcd_address.ts';
import { openStore } from './open_store.ts';

const refused = (words: RegExp) => (thrown: unknown) => {
  assert.ok(thrown instanceof HearthError);
  assert.equal(thrown.code, 'InvalidArgument');
  assert.match(thrown.message, words);
  assert.doesNotMatch(thrown.message, /secret/);
  return true;
};

describe('parseEtcdAddress', () => {
  it('reads endpoints, space and parameters', () => {
    assert.deepEqual(parseEtcdAddress('etcd://a,b:1,[::1]:2,[fe80::1]'), {
      endpoints: ['a:2379', 'b:1', '[::1]:2', '[fe80::1]:2379'],
      space: 'hearth',
      tls: undefined,
      user: undefined,
      passwordFile: undefined,
    });
    assert.deepEqual(
      parseEtcdAddress('etcd://a/blue?ca=/c%20a.pem&cert=/c&key=/k&serverName=etcd&user=u&passwordFile=/p'),
      {
        endpoints: ['a:2379'],
        space: 'blue',
        tls: { ca: '/c a.pem', cert: '/c', key: '/k', serverName: 'etcd' },
        user: 'u',
        passwordFile: '/p',
      },
    );
    assert.deepEqual(parseEtcdAddress('etcd://a?tls=true').tls, {
      ca: undefined,
      cert: undefined,
      key: undefined,
      serverName: undefined,
    });
    assert.equal(parseEtcdAddress('etcd://a?tls=false').tls, undefined);
  });

  it('names the invalid part, without repeating possible secrets', () => {
    const wrong: [string, RegExp][] = [
      ['etcd://', /names no host/],
      ['etcd://user:secret@host', /holds a user or password/],
      ['etcd://host:0', /port/],
      ['etcd://host:99999', /port/],
      ['etcd://host:x', /not HOST/],
      ['etcd://::1', /square brackets/],
      ['etcd://a,,b', /not HOST/],
      ['etcd://a/b/c', /SPACE/],
      ['etcd://a?password=secret', /unknown parameter 'password'/],
      ['etcd://a?ca=', /'ca' is empty/],
      ['etcd://a?ca=1&ca=2', /more than once/],
      ['etcd://a?cert=/c', /cert and key/],
      ['etcd://a?user=secret', /user and passwordFile/],
      ['etcd://a?tls=maybe', /true or false/],
      ['etcd://a?tls=false&ca=/c', /contradicts/],
    ];
    for (const [address, words] of wrong) assert.throws(() => parseEtcdAddress(address), refused(words), address);
  });
});

describe('openStore', () => {
  it('names the fault of an address', async () => {
    const wrong: [string, RegExp][] = [
      ['redis://user:secret@host', /begins with redis:/],
      ['/var/lib/store.db', /begins with no scheme/],
      ['sqlite:', /names no file/],
      ['sqlite::memory:', /names no file/],
      ['sqlite:///tmp/x', /names no file/],
    ];
    for (const [address, words] of wrong) await assert.rejects(openStore(address), refused(words), address);
  });
});
