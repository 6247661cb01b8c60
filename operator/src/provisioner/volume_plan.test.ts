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
const plan = planClaim(claim, storageClass, dataset({}, readyStatus({ bytes: 3 * 2 ** 30 })));
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
