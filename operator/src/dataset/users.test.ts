import assert from 'node:assert/strict';
import type { PersistentVolume, Pod } from '@hearth/common/kubernetes';
import { claimsOf, DatasetUsers, describeUsers, usesOfPod, usesOfVolume } from './users.ts';

function volume(phase: string, fields: Partial<NonNullable<PersistentVolume['spec']>> = {}): PersistentVolume {
  const volumeAttributes = { cluster: 'main', datasetNamespace: 'team', dataset: 'llama' };
  return {
    metadata: { name: 'pv' },
    spec: {
      csi: { driver: 'csi.hearth.storage', volumeHandle: 'h', volumeAttributes },
      claimRef: { namespace: 'team', name: 'c', uid: 'u' },
      ...fields,
    },
    status: { phase },
  };
}

function pod(phase: string, ...datasets: string[]): Pod {
  const volumes = datasets.map((dataset, index) => ({
    name: `v${index}`,
    csi: { driver: 'csi.hearth.storage', volumeAttributes: { dataset, datasetNamespace: 'other' } },
  }));
  return { metadata: { namespace: 'team', name: 'p' }, spec: { containers: [], volumes }, status: { phase } };
}

describe('users of a Dataset', () => {
  it('are claims bound to its volumes', () => {
    const claim = { kind: 'PersistentVolumeClaim', key: 'team/c', uid: 'u' };
    assert.deepEqual([...usesOfVolume(volume('Bound'))], [['team/llama', claim]]);
    assert.deepEqual([...usesOfVolume(volume('Pending')).keys()], ['team/llama'], 'it was made for that claim');
    assert.equal(usesOfVolume(volume('Available', { claimRef: { namespace: 'team', name: 'c' } })).size, 0);
    for (const phase of ['Released', 'Failed']) assert.equal(usesOfVolume(volume(phase)).size, 0);
    const other = {
      driver: 'other',
      volumeHandle: 'h',
      volumeAttributes: { datasetNamespace: 'team', dataset: 'llama' },
    };
    assert.equal(usesOfVolume(volume('Bound', { csi: other })).size, 0);
    assert.equal(usesOfVolume(volume('Bound', { csi: { driver: 'csi.hearth.storage', volumeHandle: 'h' } })).size, 0);
  });

  it('are pods with inline volumes, always of their own namespace, until they have ended', () => {
    assert.deepEqual([...usesOfPod(pod('Running', 'llama', 'mistral')).keys()], ['team/llama', 'team/mistral']);
    assert.deepEqual([...usesOfPod(pod('Pending', 'llama')).values()], [{ kind: 'Pod', key: 'team/p' }]);
    assert.equal(usesOfPod(pod('Succeeded', 'llama')).size, 0);
    assert.equal(usesOfPod(pod('Failed', 'llama')).size, 0);
    assert.equal(usesOfPod(pod('Running')), usesOfPod(pod('Running')), 'most pods cost nothing');
  });

  it('are known as they come and go', () => {
    const changed: string[] = [];
    const users = new DatasetUsers((key) => changed.push(key));
    const uses = usesOfVolume(volume('Bound'));
    users.update('volume', 'pv', undefined, uses);
    users.update('volume', 'pv', uses, usesOfVolume(volume('Bound')));
    users.update('pod', 'team/p', undefined, usesOfPod(pod('Running', 'llama', 'mistral')));
    assert.deepEqual(
      users.of('team/llama').map(({ key }) => key),
      ['team/c', 'team/p'],
    );
    assert.deepEqual(changed, ['team/llama', 'team/llama', 'team/mistral']);
    users.update('pod', 'team/p', usesOfPod(pod('Running', 'llama', 'mistral')), usesOfPod(pod('Succeeded', 'llama')));
    users.update('volume', 'pv', uses, undefined);
    assert.deepEqual(users.of('team/llama'), []);
    assert.equal(changed.length, 6);
  });

  it('come first of all', () => {
    const claims = ['a', 'b', 'c', 'd', 'e'].map((key) => ({
      kind: 'PersistentVolumeClaim' as const,
      key: `n/${key}`,
    }));
    const text = describeUsers([...claims, { kind: 'Pod', key: 'n/p' }]);
    assert.equal(text, 'claims n/a, n/b, n/c and 2 more; pod n/p');
    assert.deepEqual(claimsOf([{ kind: 'Pod', key: 'n/p' }, ...claims], 1), [{ namespace: 'n', name: 'a', uid: '' }]);
  });
});
