import assert from 'node:assert/strict';
import type { PersistentVolume, Pod } from '../kubernetes/kinds.ts';
import { claimedDataset, datasetOfVolume, podVolumes } from './pod_volumes.ts';

const source = { apiGroup: 'hearth.storage', kind: 'Dataset', name: 'llama' };
const volume = (csi: object) => ({ spec: { csi } }) as PersistentVolume;

describe('volumes of a pod', () => {
  it("lead to Datasets of the pod's namespace when inline", () => {
    const volumes = [
      { name: 'model', csi: { driver: 'csi.hearth.storage', volumeAttributes: { dataset: 'llama' } } },
      { name: 'other', csi: { driver: 'else', volumeAttributes: { dataset: 'llama' } } },
      { name: 'old', csi: { driver: 'csi.hearth.storage', volumeAttributes: { dataset: 'llama', revision: 'ab' } } },
      { name: 'none', csi: { driver: 'csi.hearth.storage' } },
      { name: 'scratch', emptyDir: {} },
      {
        name: 'clients',
        csi: { driver: 'csi.hearth.storage', volumeAttributes: { clientAccess: 'true', datasets: 'llama, words,' } },
      },
    ];
    const pod = { metadata: { name: 'web', namespace: 'team' }, spec: { containers: [], volumes } } as Pod;
    assert.deepEqual(podVolumes(pod), [
      { volume: 'model', kind: 'dataset', dataset: { namespace: 'team', name: 'llama' } },
      { volume: 'old', kind: 'dataset', dataset: { namespace: 'team', name: 'llama' }, revision: 'ab' },
      { volume: 'clients', kind: 'dataset', dataset: { namespace: 'team', name: 'llama' } },
      { volume: 'clients', kind: 'dataset', dataset: { namespace: 'team', name: 'words' } },
    ]);
  });

  it('may be claims, including claims created with the pod', () => {
    const volumes = [
      { name: 'model', persistentVolumeClaim: { claimName: 'models' } },
      { name: 'own', ephemeral: { volumeClaimTemplate: { spec: { dataSourceRef: source } } } },
      { name: 'disk', ephemeral: { volumeClaimTemplate: { spec: {} } } },
    ];
    const pod = { metadata: { name: 'web' }, spec: { containers: [], volumes } } as unknown as Pod;
    assert.deepEqual(podVolumes(pod, 'team'), [
      { volume: 'model', kind: 'claim', claim: 'models' },
      { volume: 'own', kind: 'template', claim: 'web-own', dataset: { namespace: 'team', name: 'llama' } },
      { volume: 'disk', kind: 'template', claim: 'web-disk', dataset: undefined },
    ]);
  });

  it('lead to Datasets of the same namespace by dataSourceRef, and of any by a volume', () => {
    const claim = (dataSourceRef: object) => ({ metadata: { namespace: 'team' }, spec: { dataSourceRef } }) as never;
    assert.deepEqual(claimedDataset(claim(source)), { namespace: 'team', name: 'llama' });
    assert.equal(claimedDataset(claim({ ...source, namespace: 'theirs' })), undefined);
    assert.equal(claimedDataset(claim({ ...source, kind: 'VolumeSnapshot' })), undefined);
    assert.equal(claimedDataset({}), undefined);
    const volumeAttributes = { datasetNamespace: 'shared', dataset: 'llama' };
    assert.deepEqual(datasetOfVolume(volume({ driver: 'csi.hearth.storage', volumeAttributes })), {
      namespace: 'shared',
      name: 'llama',
    });
    assert.equal(datasetOfVolume(volume({ driver: 'else', volumeAttributes })), undefined);
    assert.equal(datasetOfVolume(volume({ driver: 'csi.hearth.storage' })), undefined);
  });
});
