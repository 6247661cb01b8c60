import assert from 'node:assert/strict';
import type { ResourceType } from '@hearth/common/kubernetes';
import { readReferences } from './observer.ts';
import { sampleCluster } from './testing/samples.ts';

describe('references of a StorageCluster', () => {
  const store = { endpoints: ['https://e:1'], secretRef: { name: 'etcd-client' } };
  const origins = { certificateAuthorities: { name: 'company' } };
  const read = async (data: Record<string, Record<string, string>>, spec: object = { store, origins }) =>
    await readReferences(
      { get: async (type: ResourceType) => (data[type.kind] && { data: data[type.kind] }) as never } as never,
      sampleCluster(spec),
      'hearth-system',
      new AbortController().signal,
    );

  it('are none in most of them, and nothing is asked for', async () => {
    assert.deepEqual(await read({}, {}), { originAuthorities: undefined, missing: [] });
  });

  it('are named one by one when they are not there', async () => {
    assert.deepEqual((await read({})).missing, [
      'Agents wait for ConfigMap company in namespace hearth-system; make it',
      'Agents wait for Secret etcd-client in namespace hearth-system; make it',
    ]);
  });

  it('are asked for their keys', async () => {
    const { missing } = await read({ ConfigMap: { other: 'x' }, Secret: { 'tls.crt': 'x' } });
    assert.deepEqual(missing, [
      'Agents wait for the key ca.crt of ConfigMap company in namespace hearth-system; add it',
      'Agents wait for tls.key, ca.crt in Secret etcd-client in namespace hearth-system; add them',
    ]);
    const whole = { ConfigMap: { 'ca.crt': 'PEM' }, Secret: { 'tls.crt': '', 'tls.key': '', 'ca.crt': '' } };
    assert.deepEqual(await read(whole), { originAuthorities: 'PEM', missing: [] });
  });
});
