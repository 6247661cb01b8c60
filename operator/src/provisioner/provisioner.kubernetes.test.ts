import assert from 'node:assert/strict';
import { HearthError } from '@hearth/common';
import type { PersistentVolume, PersistentVolumeClaim } from '@hearth/common/kubernetes';
import { elapse, until } from '@hearth/common/testing';
import { ControllerManager } from '@hearth/common/testing/kubernetes';
import {
  conditionOf,
  DatasetCluster,
  datasetObject,
  promptAgents,
  storageCluster,
} from '../dataset/testing/dataset_cluster.ts';
import type { FakeAgents } from '../dataset/testing/fake_agents.ts';
import { TestOperator } from '../dataset/testing/test_operator.ts';

const driver = 'csi.hearth.storage';

function storageClass(name: string, fields: object = {}): object {
  return { apiVersion: 'storage.k8s.io/v1', kind: 'StorageClass', metadata: { name }, provisioner: driver, ...fields };
}

function claimObject(name: string, spec: object = {}): object {
  return {
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: { name, namespace: 'default' },
    spec: {
      storageClassName: 'hearth',
      accessModes: ['ReadOnlyMany'],
      resources: { requests: { storage: '1' } },
      dataSourceRef: { apiGroup: 'hearth.storage', kind: 'Dataset', name: 'llama' },
      ...spec,
    },
  };
}

describe('volumes of claims, with the binder of Kubernetes', () => {
  let cluster: DatasetCluster;
  let controllers: ControllerManager;
  let agents: FakeAgents;
  let operator: TestOperator | undefined;

  before(async function () {
    cluster = await DatasetCluster.start(this);
    controllers = await ControllerManager.start(cluster.server);
    await cluster.apply(
      storageClass('hearth', { mountOptions: ['noatime'] }),
      storageClass('kept', { reclaimPolicy: 'Retain' }),
      storageClass('late', { volumeBindingMode: 'WaitForFirstConsumer' }),
      storageClass('scratch', { parameters: { kind: 'scratch' }, allowVolumeExpansion: true }),
    );
  });
  after(async () => {
    await controllers?.stop();
    await cluster?.stop();
  });

  beforeEach(async () => {
    agents = promptAgents('main');
    await cluster.apply(storageCluster('main'));
    operator = new TestOperator(cluster.operator, agents);
  });
  afterEach(async () => {
    agents.failing.clear();
    for (const kinds of ['pvc', 'datasets', 'pv']) {
      await cluster.kubectl('delete', kinds, '--all', '--wait=false');
      await until(`no ${kinds} left`, async () => (await cluster.kubectl('get', kinds, '-o', 'name')) === '');
    }
    await operator?.stop();
    await cluster.kubectl('delete', 'storageclusters', '--all');
  });

  const bound = (name: string) =>
    until(`claim ${name} bound`, async () => {
      const claim = await cluster.get<PersistentVolumeClaim>('pvc', name);
      return claim.status?.phase === 'Bound' ? claim : undefined;
    });
  const volumeOf = async (name: string) =>
    await cluster.get<PersistentVolume>('pv', (await bound(name)).spec?.volumeName ?? '');
  const told = (name: string, text: RegExp) =>
    until(`event ${text}`, async () =>
      (await cluster.eventsOf('PersistentVolumeClaim', name)).find((one) => text.test(one)),
    );

  it('are made when the Dataset is Ready, as large as it is, and go with the claim', async () => {
    await cluster.apply(claimObject('c'));
    await told('c', /^Normal WaitingForDataset: waits for Dataset default\/llama, which does not exist yet/);
    await cluster.apply(datasetObject('llama'));
    const claim = await bound('c');
    const volume = await volumeOf('c');
    assert.equal(volume.metadata?.name, `pvc-${claim.metadata?.uid}`);
    assert.equal(volume.spec?.capacity?.storage, '1k', 'the API server spells 1000 so');
    assert.equal(claim.status?.capacity?.storage, '1k');
    const { nodeSelectorTerms = [] } = volume.spec?.nodeAffinity?.required ?? {};
    assert.equal(nodeSelectorTerms.length, 2, 'nodes that may come, and those that are there');
    assert.deepEqual(nodeSelectorTerms[1]?.matchExpressions, [
      { key: 'cluster.csi.hearth.storage/main', operator: 'In', values: ['true'] },
    ]);
    assert.deepEqual(volume.spec?.mountOptions, ['noatime']);
    assert.deepEqual(volume.spec?.csi?.volumeAttributes, {
      cluster: 'main',
      datasetNamespace: 'default',
      dataset: 'llama',
    });
    await told('c', /^Normal ProvisioningSucceeded/);
    await cluster.kubectl('delete', 'pvc', 'c');
    await cluster.gone('pv', volume.metadata?.name ?? '');
  });

  it('are as large as the claim asks when that is more', async () => {
    await cluster.apply(datasetObject('llama'));
    await cluster.apply(
      claimObject('c', { resources: { requests: { storage: '5Gi' } }, accessModes: ['ReadWriteMany'] }),
    );
    const volume = await volumeOf('c');
    assert.equal(volume.spec?.capacity?.storage, '5Gi');
    assert.deepEqual(volume.spec?.accessModes, ['ReadWriteMany']);
  });

  it('keep their Dataset readable until the claim has gone', async () => {
    await cluster.apply(datasetObject('llama'), claimObject('c'));
    await bound('c');
    await cluster.kubectl('delete', 'dataset', 'llama', '--wait=false');
    const dataset = await cluster.reason('llama', 'InUse');
    assert.match(conditionOf(dataset, 'Ready')?.message ?? '', /stays readable for claim default\/c$/);
    await told('c', /^Warning DatasetIsDeleted: Dataset default\/llama is being deleted: this claim stays readable/);
    await cluster.apply(claimObject('late-comer'));
    await told('late-comer', /^Warning DatasetIsDeleted: .*no new volumes/);
    await elapse(500, 'it would be removed');
    assert.deepEqual(agents.called('removeDataset'), []);
    await cluster.kubectl('delete', 'pvc', 'c');
    await cluster.gone('dataset', 'llama');
  });

  it('stay with the policy Retain, and let go when they are deleted', async () => {
    await cluster.apply(datasetObject('llama'), claimObject('c', { storageClassName: 'kept' }));
    const volume = await volumeOf('c');
    const name = volume.metadata?.name ?? '';
    await cluster.kubectl('delete', 'pvc', 'c');
    await until('released', async () => {
      return (await cluster.get<PersistentVolume>('pv', name)).status?.phase === 'Released';
    });
    await elapse(500, 'it would be removed');
    await cluster.kubectl('delete', 'pv', name);
  });

  it('of scratch are made at the agents, and go with their files, as soon as no node has them mounted', async () => {
    const inUse = new HearthError('InUse', 'a node has the volume mounted');
    const spec = { storageClassName: 'scratch', accessModes: ['ReadWriteMany'], dataSourceRef: undefined };
    await cluster.apply(claimObject('kv', { ...spec, resources: { requests: { storage: '64Mi' } } }));
    const volume = await volumeOf('kv');
    const name = volume.metadata?.name ?? '';
    assert.deepEqual(volume.spec?.csi?.volumeAttributes, { cluster: 'main', volume: name });
    assert.deepEqual(agents.called('createWritableVolume'), [
      { name, kind: 'scratch', maxBytes: 64n << 20n, maxFiles: 0n, deadlineMs: 0n },
    ]);
    agents.failing.set('deleteWritableVolume', inUse);
    await cluster.kubectl('delete', 'pvc', 'kv');
    await until('an event about the files', async () =>
      (await cluster.eventsOf('PersistentVolume', name)).find((one) => /VolumeFailedDelete/.test(one)),
    );
    assert.equal((await cluster.get<PersistentVolume>('pv', name)).status?.phase, 'Released');
    agents.failing.clear();
    await cluster.gone('pv', name);
  });

  it('of scratch grow when their claims do', async () => {
    const spec = { storageClassName: 'scratch', accessModes: ['ReadWriteMany'], dataSourceRef: undefined };
    await cluster.apply(claimObject('kv', { ...spec, resources: { requests: { storage: '64Mi' } } }));
    const name = (await volumeOf('kv')).metadata?.name ?? '';
    const request = (storage: string) => JSON.stringify({ spec: { resources: { requests: { storage } } } });
    await cluster.kubectl('patch', 'pvc', 'kv', '-p', request('1Gi'));
    await until('the claim has its new size', async () => {
      const { status } = await cluster.get<PersistentVolumeClaim>('pvc', 'kv');
      return status?.capacity?.storage === '1Gi';
    });
    assert.equal((await cluster.get<PersistentVolume>('pv', name)).spec?.capacity?.storage, '1Gi');
    assert.deepEqual(agents.called('resizeWritableVolume'), [{ name, maxBytes: 1n << 30n }]);
    await told('kv', /^Normal VolumeResizeSuccessful: the volume takes 1Gi/);
  });

  it('wait for the first pod of a class that says so', async () => {
    await cluster.apply(datasetObject('llama'), claimObject('c', { storageClassName: 'late' }));
    await cluster.reason('llama', 'Ready');
    await elapse(1_000, 'it would be bound');
    assert.equal((await cluster.get<PersistentVolumeClaim>('pvc', 'c')).spec?.volumeName, undefined);
    // Stands in for the scheduler, which has chosen a node for the pod.
    await cluster.kubectl('annotate', 'pvc', 'c', 'volume.kubernetes.io/selected-node=n1');
    await bound('c');
  });

  it('are refused with the way out', async () => {
    await cluster.apply(datasetObject('llama'));
    await cluster.apply(claimObject('plain', { dataSourceRef: undefined }));
    await told('plain', /^Warning ProvisioningFailed: .*dataSourceRef .*, or use a StorageClass of scratch volumes/);
    await cluster.apply(claimObject('block', { volumeMode: 'Block' }));
    await told('block', /^Warning ProvisioningFailed: .*volumeMode: Filesystem/);
  });

  it('are given the affinity that a release before did not give them', async () => {
    await cluster.apply(datasetObject('llama'), {
      apiVersion: 'v1',
      kind: 'PersistentVolume',
      metadata: {
        name: 'earlier',
        annotations: { 'pv.kubernetes.io/provisioned-by': 'csi.hearth.storage' },
        finalizers: ['hearth.storage/finalizer'],
      },
      spec: {
        capacity: { storage: '1k' },
        accessModes: ['ReadOnlyMany'],
        persistentVolumeReclaimPolicy: 'Delete',
        storageClassName: 'hearth',
        claimRef: { apiVersion: 'v1', kind: 'PersistentVolumeClaim', namespace: 'default', name: 'early' },
        csi: {
          driver: 'csi.hearth.storage',
          volumeHandle: 'earlier',
          volumeAttributes: { cluster: 'main', datasetNamespace: 'default', dataset: 'llama' },
        },
      },
    });
    await cluster.apply(claimObject('early', { volumeName: 'earlier' }));
    await bound('early');
    const terms = await until('its affinity', async () => {
      const { spec } = await cluster.get<PersistentVolume>('pv', 'earlier');
      return spec?.nodeAffinity?.required?.nodeSelectorTerms;
    });
    const matchExpressions = [{ key: 'cluster.csi.hearth.storage/main', operator: 'In', values: ['true'] }];
    assert.deepEqual(terms, [{ matchExpressions }]);
  });

  it('are never of the Dataset of another namespace', async () => {
    await cluster.kubectl('create', 'namespace', 'other');
    await cluster.apply(
      datasetObject('llama', {}, 'other'),
      storageClass('evil', { parameters: { datasetNamespace: 'other' } }),
    );
    await cluster.reason('llama', 'Ready', 'other');
    const dataSourceRef = { apiGroup: 'hearth.storage', kind: 'Dataset', name: 'llama', namespace: 'other' };
    await cluster.apply(claimObject('named', { dataSourceRef }), claimObject('classed', { storageClassName: 'evil' }));
    await told('named', /waits for Dataset default\/llama|own namespace|dataSourceRef/);
    await told('classed', /^Warning ProvisioningFailed: .*unknown parameters \(datasetNamespace\)/);
    assert.equal(await cluster.kubectl('get', 'pv', '-o', 'name'), '');
    await cluster.kubectl('delete', 'dataset', 'llama', '-n', 'other');
  });
});
