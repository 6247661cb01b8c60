import assert from 'node:assert/strict';
import { dataset, readyStatus } from '../dataset/testing/fixtures.ts';
import { pendingClaim } from './claim.ts';
import { planClaim } from './claim_plan.ts';
import { persistentVolume, quantity } from './persistent_volume.ts';
import { classView } from './storage_class.ts';
import { planVolume, type VolumeView, volumeView } from './volume_plan.ts';

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
const plan = planClaim(claim, storageClass, dataset({}, readyStatus()));
assert.ok(plan.kind === 'provision');
const volumeContext = { cluster: 'main', datasetNamespace: 'team', dataset: 'llama' };
const object = persistentVolume(plan.request, {
  volumeId: 'pvc-u-1',
  capacityBytes: 3n << 30n,
  volumeContext,
  accessibleTopology: [{ segments: { 'cluster.csi.hearth.storage/main': 'true' } }],
});

describe('PersistentVolume of a claim', () => {
  it('has what the claim and its class ask for, and belongs to that claim alone', () => {
    assert.equal(object.metadata?.name, 'pvc-u-1');
    assert.deepEqual(object.metadata?.finalizers, ['hearth.storage/finalizer']);
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
      nodeAffinity: {
        required: {
          nodeSelectorTerms: [
            { matchExpressions: [{ key: 'cluster.csi.hearth.storage/main', operator: 'In', values: ['true'] }] },
          ],
        },
      },
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
  it('knows what its record at the agents says', () => {
    const { handle, cluster, dataset: name, revision, capacityBytes } = present;
    assert.deepEqual(
      [handle, cluster, name, revision, capacityBytes],
      ['pvc-u-1', 'main', 'team.llama', '', 3n << 30n],
    );
  });

  const kinds = (fields: Partial<VolumeView>) => planVolume({ ...present, ...fields }).map((action) => action.kind);

  it('deletes it when it was released and its policy says so', () => {
    assert.deepEqual(kinds({ phase: 'Released', reclaimPolicy: 'Delete' }), ['deleteVolume', 'deleteObject']);
    const deleting = { phase: 'Released', reclaimPolicy: 'Delete', deleting: true };
    assert.deepEqual(kinds(deleting), ['deleteVolume', 'removeFinalizer']);
    assert.deepEqual(kinds({ ...deleting, hasFinalizer: false }), []);
  });

  it('keeps it else', () => {
    assert.deepEqual(kinds({ phase: 'Bound', reclaimPolicy: 'Delete' }), ['ensureVolume']);
    for (const phase of ['', 'Pending', 'Available', 'Failed']) {
      assert.deepEqual(kinds({ phase, reclaimPolicy: 'Delete' }), [], phase);
    }
    assert.deepEqual(kinds({ phase: 'Released', reclaimPolicy: 'Retain' }), []);
    assert.deepEqual(kinds({ phase: 'Bound', reclaimPolicy: 'Delete', deleting: true }), []);
  });

  it('lets go of one that is deleted, and keeps its record when it is to be retained', () => {
    assert.deepEqual(kinds({ phase: 'Released', reclaimPolicy: 'Retain', deleting: true }), ['removeFinalizer']);
    const unused = { phase: 'Available', reclaimPolicy: 'Delete', deleting: true };
    assert.deepEqual(kinds(unused), ['deleteVolume', 'removeFinalizer']);
  });

  it('leaves volumes of administrators and of other drivers alone', () => {
    assert.deepEqual(kinds({ phase: 'Released', reclaimPolicy: 'Delete', provisioned: false }), []);
    assert.equal(volumeView({ spec: { csi: { driver: 'other', volumeHandle: 'h' } } }), undefined);
    assert.deepEqual(planVolume(undefined), []);
  });
});
