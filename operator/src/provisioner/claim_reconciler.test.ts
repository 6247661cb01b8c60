import assert from 'node:assert/strict';
import { HearthError } from '@hearth/common';
import type { KubernetesClient, PersistentVolume, PersistentVolumeClaim } from '@hearth/common/kubernetes';
import type { Dataset } from '@hearth/common/resources';
import { dataset, readyStatus } from '../dataset/testing/fixtures.ts';
import { reconcileKey } from '../reconciler/index.ts';
import { sampleCluster } from '../storage_cluster/testing/samples.ts';
import { classView, pendingClaim } from './claim.ts';
import { ClaimReconciler } from './claim_reconciler.ts';

const driver = 'csi.hearth.storage';
const { signal } = new AbortController();

describe('claims', () => {
  let claim: PersistentVolumeClaim;
  let present: PersistentVolumeClaim | undefined;
  let llama: Dataset | undefined;
  let objects: Map<string, PersistentVolume>;
  let createFails: HearthError | undefined;
  let events: string[];
  let reconciler: ClaimReconciler;

  beforeEach(() => {
    claim = {
      metadata: {
        namespace: 'team',
        name: 'c',
        uid: 'u-1',
        annotations: { 'volume.kubernetes.io/storage-provisioner': driver },
      },
      spec: {
        storageClassName: 'hearth',
        accessModes: ['ReadOnlyMany'],
        resources: { requests: { storage: '1' } },
        dataSourceRef: { apiGroup: 'hearth.storage', kind: 'Dataset', name: 'llama' },
      },
    };
    present = claim;
    llama = dataset({}, readyStatus({ bytes: 2048 }));
    objects = new Map();
    createFails = undefined;
    events = [];
    const get = async (type: { kind: string }, name: string) =>
      type.kind === 'PersistentVolume' ? objects.get(name) : present;
    const create = async (_type: unknown, object: PersistentVolume) => {
      if (createFails !== undefined) throw createFails;
      const name = object.metadata?.name ?? '';
      if (objects.has(name)) throw new HearthError('AlreadyExists', `${name} exists`);
      objects.set(name, object);
      return object;
    };
    reconciler = new ClaimReconciler({
      api: { get, create } as unknown as KubernetesClient,
      events: {
        eventFor: (_kind, _object, type, reason, message) => void events.push(`${type} ${reason}: ${message}`),
      },
      storageClasses: { get: () => classView({ metadata: { name: 'hearth' }, provisioner: driver }) },
      datasets: { get: () => llama },
      clusters: { all: () => [sampleCluster({}, { name: 'main' })] },
      scratch: { create: () => assert.fail('the claim names a Dataset') },
    });
  });
  const reconcile = () => reconcileKey(reconciler, () => pendingClaim(claim))('team/c', signal);

  it('get a volume of the size of the Dataset', async () => {
    await reconcile();
    const spec = objects.get('pvc-u-1')?.spec;
    assert.equal(spec?.capacity?.storage, '2Ki');
    assert.deepEqual(spec?.csi?.volumeAttributes, { cluster: 'main', datasetNamespace: 'team', dataset: 'llama' });
    assert.deepEqual(events, ['Normal ProvisioningSucceeded: the operator made volume pvc-u-1']);
  });

  it('get one volume, however often they are looked at and however the Dataset has grown', async () => {
    createFails = new HearthError('Unavailable', 'the API server is away');
    await assert.rejects(reconcile(), { code: 'Unavailable' });
    assert.equal(objects.size, 0);
    createFails = undefined;
    await reconcile();
    llama = dataset({}, readyStatus({ bytes: 4096 }));
    await reconcile();
    assert.equal(objects.get('pvc-u-1')?.spec?.capacity?.storage, '2Ki');
    assert.equal(objects.size, 1);
    assert.equal(events.filter((event) => event.includes('ProvisioningFailed')).length, 1);
  });

  it('get no volume when they have gone meanwhile', async () => {
    for (const gone of [undefined, { ...claim, metadata: { ...claim.metadata, uid: 'u-2' } }]) {
      present = gone;
      await reconcile();
      assert.equal(objects.size, 0);
    }
  });

  it('do not take an object of that name from another owner', async () => {
    objects.set('pvc-u-1', { spec: { claimRef: { uid: 'other' } } });
    await assert.rejects(reconcile(), { code: 'AlreadyExists', message: /belongs to something else; delete it/ });
  });

  it('get one event of what they wait for', async () => {
    llama = undefined;
    await reconcile();
    await reconcile();
    assert.deepEqual(events, ['Normal WaitingForDataset: waits for Dataset team/llama, which does not exist yet']);
    llama = dataset({}, readyStatus());
    createFails = new HearthError('Unavailable', 'the API server is away');
    await assert.rejects(reconcile(), { code: 'Unavailable' });
    await assert.rejects(reconcile(), { code: 'Unavailable' });
    assert.deepEqual(events.slice(1), ['Warning ProvisioningFailed: the API server is away']);
  });
});
