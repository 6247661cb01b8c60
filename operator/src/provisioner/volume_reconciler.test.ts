import assert from 'node:assert/strict';
import type { KubernetesClient, PersistentVolume } from '@hearth/common/kubernetes';
import { reconcileKey } from '../reconciler/index.ts';
import { type VolumeView, volumeView } from './volume_plan.ts';
import { VolumeReconciler } from './volume_reconciler.ts';

const { signal } = new AbortController();

const affinity = {
  required: {
    nodeSelectorTerms: [
      { matchExpressions: [{ key: 'cluster.csi.hearth.storage/main', operator: 'In', values: ['true'] }] },
    ],
  },
};

function volume(phase: string, metadata: object = {}, nodeAffinity: object | null = affinity): PersistentVolume {
  return {
    metadata: {
      name: 'pvc-1',
      uid: 'u',
      annotations: { 'pv.kubernetes.io/provisioned-by': 'csi.hearth.storage' },
      finalizers: ['kubernetes.io/pv-protection', 'hearth.storage/finalizer'],
      resourceVersion: '7',
      ...metadata,
    },
    spec: {
      capacity: { storage: '1Gi' },
      persistentVolumeReclaimPolicy: 'Delete',
      csi: {
        driver: 'csi.hearth.storage',
        volumeHandle: 'pvc-1',
        volumeAttributes: { cluster: 'main', datasetNamespace: 'team', dataset: 'llama' },
      },
      ...(nodeAffinity === null ? {} : { nodeAffinity }),
    },
    status: { phase },
  } as PersistentVolume;
}

describe('volumes', () => {
  let object: PersistentVolume | undefined;
  let seen: VolumeView | undefined;
  let calls: unknown[];
  let reconciler: VolumeReconciler;

  beforeEach(() => {
    calls = [];
    reconciler = new VolumeReconciler({
      get: async () => object,
      delete: async (...given: unknown[]) => calls.push(['delete', given[1], given[3]]),
      patch: async (...given: unknown[]) => calls.push(['patch', given[1], given[3]]),
    } as unknown as KubernetesClient);
  });
  const reconcile = (given: PersistentVolume) => {
    object = given;
    seen = volumeView(given);
    return pass();
  };
  const pass = () => reconcileKey(reconciler, () => seen)('pvc-1', signal);

  it('get the affinity that the operator of a release before did not give them, once', async () => {
    await reconcile(volume('Bound', {}, null));
    assert.deepEqual(calls, [['patch', 'pvc-1', { metadata: { uid: 'u' }, spec: { nodeAffinity: affinity } }]]);
    await reconcile(volume('Bound'));
    await reconcile(volume('Bound', { annotations: {} }, null));
    assert.equal(calls.length, 1, 'those of administrators are theirs');
  });

  it('of an earlier release go in two steps, each of which may be the last before a crash', async () => {
    await reconcile(volume('Released'));
    assert.deepEqual(calls, [['delete', 'pvc-1', { preconditions: { uid: 'u' }, signal }]]);
    await reconcile(volume('Released', { deletionTimestamp: '2026-01-01T00:00:00Z' }));
    const metadata = { uid: 'u', resourceVersion: '7', finalizers: ['kubernetes.io/pv-protection'] };
    assert.deepEqual(calls[1], ['patch', 'pvc-1', { metadata }]);
  });

  it('that were made again under the same name keep their finalizer', async () => {
    seen = volumeView(volume('Released', { deletionTimestamp: '2026-01-01T00:00:00Z' }));
    object = volume('Bound', { uid: 'u-2' });
    await pass();
    assert.deepEqual(calls, []);
  });
});
