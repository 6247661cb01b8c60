import assert from 'node:assert/strict';
import { storeAddress } from './names.ts';
import { sampleCluster } from './testing/samples.ts';

describe('address of the store', () => {
  const tls = 'ca=/etc/hearth/tls/ca.crt&cert=/etc/hearth/tls/tls.crt&key=/etc/hearth/tls/tls.key';
  const cases: [what: string, store: object, service: string | undefined, address: string | undefined][] = [
    ['an etcd without an address yet', { etcd: {} }, undefined, undefined],
    [
      'an etcd of our own',
      { etcd: {} },
      '10.96.0.7',
      `etcd://10.96.0.7:2379/models?${tls}&serverName=etcd.models.hearth`,
    ],
    ['one with IPv6', { etcd: {} }, 'fd00::7', `etcd://[fd00::7]:2379/models?${tls}&serverName=etcd.models.hearth`],
    [
      'endpoints in plain text',
      { endpoints: ['http://10.0.0.1:2379', 'http://10.0.0.2:2379'] },
      undefined,
      'etcd://10.0.0.1:2379,10.0.0.2:2379/models',
    ],
    ['endpoints with a public certificate', { endpoints: ['https://e:1'] }, undefined, 'etcd://e:1/models?tls=true'],
    [
      'endpoints with a Secret',
      { endpoints: ['https://e:1'], secretRef: { name: 's' } },
      undefined,
      'etcd://e:1/models?ca=/etc/hearth/store/ca.crt&cert=/etc/hearth/store/tls.crt&key=/etc/hearth/store/tls.key',
    ],
  ];
  for (const [what, store, service, address] of cases) {
    it(`of ${what}`, () => assert.equal(storeAddress(sampleCluster({ store }), service), address));
  }
});
