import assert from 'node:assert/strict';
import type { KubernetesClient, PersistentVolume } from '@hearth/common/kubernetes';
import { dataset, readyStatus } from '../dataset/testing/fixtures.ts';
import { volumeTerms } from '../kubernetes/index.ts';
import { reconcileKey } from '../reconciler/index.ts';
import { sampleCluster } from '../storage_cluster/testing/samples.ts';
import { classView, pendingClaim } from './claim.ts';
import { planClaim } from './claim_plan.ts';
import {
  persistentVolume,
  planVolume,
  quantity,
  VolumeReconciler,
  type VolumeView,
  volumeView,
} from './volume_reconciler.ts';

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
    const api = {
      get: async () => object,
      delete: async (...given: unknown[]) => calls.push(['delete', given[1], given[3]]),
      patch: async (...given: unknown[]) => calls.push(['patch', given[1], given[3]]),
    } as unknown as KubernetesClient;
    const none = () => assert.fail('the volume shows a Dataset');
    reconciler = new VolumeReconciler({
      api,
      clusters: { get: () => main },
      scratch: { delete: none },
      events: { eventFor: none },
    });
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

const driver = 'csi.hearth.storage';
const claim = pendingClaim({
  metadata: {
    namespace: 'team',
    name: 'c',
    uid: 'u-1',
    annotations: { 'volume.kubernetes.io/storage-provisioner': driver },
  },
  spec: {
    storageClassName: 'hearth',
    accessModes: ['ReadWriteMany', 'ReadOnlyMany'],
    resources: { requests: { storage: '1Gi' } },
    dataSourceRef: { apiGroup: 'hearth.storage', kind: 'Dataset', name: 'llama' },
  },
});
const storageClass = classView({
  metadata: { name: 'hearth' },
  provisioner: driver,
  reclaimPolicy: 'Retain',
  mountOptions: ['noatime'],
});
const main = sampleCluster({}, { name: 'main' });
const plan = planClaim(claim, storageClass, dataset({}, readyStatus({ bytes: 3 * 2 ** 30 })), [main]);
assert.ok(plan.kind === 'provision');
const volumeContext = { cluster: 'main', datasetNamespace: 'team', dataset: 'llama' };
const object = persistentVolume(plan.request);

describe('PersistentVolume of a claim', () => {
  it('has what the claim and its class ask for, and belongs to that claim alone', () => {
    assert.equal(object.metadata?.name, 'pvc-u-1');
    assert.equal(object.metadata?.finalizers, undefined);
    assert.equal(object.metadata?.annotations?.['pv.kubernetes.io/provisioned-by'], driver);
    assert.deepEqual(object.spec, {
      capacity: { storage: '3Gi' },
      accessModes: ['ReadWriteMany', 'ReadOnlyMany'],
      volumeMode: 'Filesystem',
      persistentVolumeReclaimPolicy: 'Retain',
      storageClassName: 'hearth',
      mountOptions: ['noatime'],
      claimRef: { apiVersion: 'v1', kind: 'PersistentVolumeClaim', namespace: 'team', name: 'c', uid: 'u-1' },
      csi: { driver, volumeHandle: 'pvc-u-1', volumeAttributes: volumeContext },
      nodeAffinity: { required: { nodeSelectorTerms: volumeTerms(main) } },
    });
  });

  it('gives its size exactly', () => {
    assert.deepEqual([0n, 1n, 1024n, 1025n, 5n << 40n, 1n << 63n].map(quantity), [
      '0',
      '1',
      '1Ki',
      '1025',
      '5Ti',
      '8Ei',
    ]);
  });
});

const present = volumeView(object);
assert.ok(present);

describe('plan for a volume', () => {
  it('knows the Dataset that it shows', () => {
    const { cluster, dataset: name, revision } = present;
    assert.deepEqual([cluster, name, revision], ['main', 'team.llama', '']);
  });

  const kinds = (fields: Partial<VolumeView>) => planVolume({ ...present, ...fields });

  it('deletes it when it was released and its policy says so', () => {
    assert.deepEqual(kinds({ phase: 'Released', reclaimPolicy: 'Delete' }), ['deleteObject']);
    assert.deepEqual(kinds({ phase: 'Released', reclaimPolicy: 'Delete', deleting: true }), []);
  });

  it('keeps it else', () => {
    assert.deepEqual(kinds({ phase: 'Bound', reclaimPolicy: 'Delete' }), []);
    for (const phase of ['', 'Pending', 'Available', 'Failed']) {
      assert.deepEqual(kinds({ phase, reclaimPolicy: 'Delete' }), [], phase);
    }
    assert.deepEqual(kinds({ phase: 'Released', reclaimPolicy: 'Retain' }), []);
    assert.deepEqual(kinds({ phase: 'Bound', reclaimPolicy: 'Delete', deleting: true }), []);
  });

  it('completes one of an earlier release, and lets go of it when it is deleted and no claim has it', () => {
    const earlier = { hasFinalizer: true, hasAffinity: false };
    assert.deepEqual(kinds({ ...earlier, phase: 'Bound' }), ['addAffinity']);
    assert.deepEqual(kinds({ ...earlier, phase: 'Bound', deleting: true }), []);
    for (const phase of ['Released', 'Available', 'Failed']) {
      for (const reclaimPolicy of ['Retain', 'Delete']) {
        assert.deepEqual(kinds({ ...earlier, phase, reclaimPolicy, deleting: true }), ['removeFinalizer'], phase);
      }
    }
  });

  it('leaves volumes of administrators and of other drivers alone', () => {
    assert.deepEqual(kinds({ phase: 'Released', reclaimPolicy: 'Delete', provisioned: false }), []);
    assert.equal(volumeView({ spec: { csi: { driver: 'other', volumeHandle: 'h' } } }), undefined);
  });
});
