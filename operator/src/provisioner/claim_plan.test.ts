import assert from 'node:assert/strict';
import type { PersistentVolumeClaim } from '@hearth/common/kubernetes';
import type { DatasetStatus } from '@hearth/common/resources';
import { dataset, readyStatus, written } from '../dataset/testing/fixtures.ts';
import { sampleCluster } from '../storage_cluster/testing/samples.ts';
import { classView, pendingClaim } from './claim.ts';
import { planClaim as planIn } from './claim_plan.ts';

const driver = 'csi.hearth.storage';

function claim(
  spec: Partial<NonNullable<PersistentVolumeClaim['spec']>> = {},
  annotations: Record<string, string> = {},
) {
  return pendingClaim({
    metadata: {
      namespace: 'team',
      name: 'c',
      uid: 'u-1',
      annotations: { 'volume.kubernetes.io/storage-provisioner': driver, ...annotations },
    },
    spec: {
      storageClassName: 'hearth',
      accessModes: ['ReadOnlyMany'],
      resources: { requests: { storage: '10Gi' } },
      dataSourceRef: { apiGroup: 'hearth.storage', kind: 'Dataset', name: 'llama' },
      ...spec,
    },
  });
}

const storageClass = (
  parameters: Record<string, string> = {},
  volumeBindingMode = 'Immediate',
  mountOptions: string[] = [],
) =>
  classView({
    metadata: { name: 'hearth' },
    provisioner: driver,
    parameters,
    volumeBindingMode,
    mountOptions,
    reclaimPolicy: 'Delete',
  });

const main = sampleCluster({}, { name: 'main' });
type Given = Parameters<typeof planIn>;
const planClaim = (of: Given[0], by: Given[1], from: Given[2]) => planIn(of, by, from, [main]);
const llama = (status?: DatasetStatus) => dataset({}, status);
const said = (...given: Parameters<typeof planClaim>) => {
  const plan = planClaim(...given);
  return plan.kind === 'wait' ? `${plan.type} ${plan.reason}: ${plan.message}` : plan.kind;
};

describe('plan for a claim', () => {
  it('makes a volume of a Dataset that is Ready', () => {
    const plan = planClaim(claim(), storageClass(), llama(readyStatus()));
    assert.ok(plan.kind === 'provision');
    const { name, cluster, capacityBytes } = plan.request;
    assert.deepEqual([name, cluster.metadata.name, capacityBytes], ['pvc-u-1', 'main', 10n << 30n]);
  });

  it('makes a volume as large as the Dataset when the claim asks for less', () => {
    const plan = planClaim(claim(), storageClass(), llama(readyStatus({ bytes: 20 * 2 ** 30 })));
    assert.equal(plan.kind === 'provision' && plan.request.capacityBytes, 20n << 30n);
  });

  it('makes a volume before the Dataset is Ready where only a pod that waits brings a first node', () => {
    const away = dataset({}, { conditions: [written('Ready', 'False', 'AgentsUnavailable', 'waits for an agent')] });
    const withNodes = (nodesDesired: number, name = 'main') => {
      return { ...sampleCluster({}, { name }), status: { conditions: [], nodesDesired } };
    };
    const planned = (...clusters: ReturnType<typeof withNodes>[]) => {
      const plan = planIn(claim(), storageClass(), away, clusters);
      return plan.kind === 'provision' ? plan.request.cluster.metadata.name : plan.kind;
    };
    assert.equal(planned(withNodes(0)), 'main');
    assert.equal(planned(withNodes(2)), 'wait', 'an agent will answer');
    assert.equal(planned(withNodes(0), withNodes(0, 'other')), 'wait', 'the Dataset may get either');
    const unauthenticated = [written('Ready', 'False', 'Unauthenticated', '401')];
    assert.equal(planIn(claim(), storageClass(), llama({ conditions: unauthenticated }), [withNodes(0)]).kind, 'wait');
  });

  it('leaves alone what is not ours, or has its volume, or is being deleted', () => {
    const ready = llama(readyStatus());
    assert.equal(claim({ volumeName: 'pv' }), undefined);
    assert.equal(claim({ storageClassName: '' }), undefined);
    assert.equal(classView({ provisioner: 'other' }), undefined);
    assert.equal(said(undefined, storageClass(), ready), 'none');
    assert.equal(said(claim(), undefined, ready), 'none');
    assert.equal(said(claim({}, { 'volume.kubernetes.io/storage-provisioner': '' }), storageClass(), ready), 'none');
    assert.equal(
      said(claim({}, { 'volume.kubernetes.io/storage-provisioner': 'other' }), storageClass(), ready),
      'none',
    );
    const present = claim();
    assert.ok(present);
    assert.equal(said({ ...present, deleting: true }, storageClass(), ready), 'none');
  });

  it('takes the old name of the annotation too', () => {
    const old = pendingClaim({
      metadata: { annotations: { 'volume.beta.kubernetes.io/storage-provisioner': driver } },
      spec: { storageClassName: 'hearth' },
    });
    assert.equal(old?.provisioner, driver);
  });

  it('waits for the first pod of a class that says so', () => {
    const waiting = storageClass({}, 'WaitForFirstConsumer');
    assert.equal(said(claim(), waiting, llama(readyStatus())), 'none');
    const selected = claim({}, { 'volume.kubernetes.io/selected-node': 'n1' });
    assert.equal(said(selected, waiting, llama(readyStatus())), 'provision');
  });

  it('waits for a Dataset that is missing, not Ready or going, and says so', () => {
    assert.equal(
      said(claim(), storageClass(), undefined),
      'Normal WaitingForDataset: waits for Dataset team/llama, which does not exist yet',
    );
    assert.match(said(claim(), storageClass(), llama()), /^Normal WaitingForDataset: .* to be Ready \(it is new\)$/);
    const failed = readyStatus({ conditions: [written('Ready', 'False', 'Unauthenticated', 'the hub answered 401')] });
    assert.match(said(claim(), storageClass(), llama(failed)), /\(Unauthenticated: the hub answered 401\)$/);
    const going = llama(readyStatus());
    going.metadata.deletionTimestamp = '2026-01-01T00:00:00Z';
    assert.match(said(claim(), storageClass(), going), /^Warning DatasetIsDeleted: /);
  });

  it('refuses what cannot be a volume of a Dataset, with the way out', () => {
    const refused = (spec: Parameters<typeof claim>[0], parameters = {}) => {
      const text = said(claim(spec), storageClass(parameters), llama(readyStatus()));
      assert.match(text, /^Warning ProvisioningFailed: /);
      return text;
    };
    const pvcOnly = { storageClassName: 'hearth', accessModes: ['ReadWriteOnce'] };
    const bare = pendingClaim({
      metadata: { annotations: { 'volume.kubernetes.io/storage-provisioner': driver } },
      spec: { ...pvcOnly, resources: { requests: { storage: '1Gi' } } },
    });
    assert.match(
      said(bare, storageClass(), undefined),
      /give the claim a dataSourceRef .*, or use a StorageClass of scratch volumes/,
    );
    assert.match(
      refused({ dataSourceRef: { kind: 'PersistentVolumeClaim', name: 'x' } }),
      /kind PersistentVolumeClaim/,
    );
    const foreign = { apiGroup: 'hearth.storage', kind: 'Dataset', name: 'llama', namespace: 'other' };
    assert.match(refused({ dataSourceRef: foreign }), /only a Dataset of its own namespace/);
    assert.match(refused({ volumeMode: 'Block' }), /volumeMode: Filesystem/);
    assert.match(refused({ selector: {} }), /remove spec.selector/);
    assert.match(refused({ resources: { requests: { storage: 'many' } } }), /write it as in 10Gi/);
    assert.match(refused({}, { datasetNamespace: 'other' }), /unknown parameters \(datasetNamespace\)/);
    assert.match(refused({}, { cluster: 'second' }), /cached by StorageCluster main, .* is for second/);
    assert.match(
      said(claim(), storageClass({}, 'Immediate', ['noatime', 'exec']), llama(readyStatus())),
      /^Warning ProvisioningFailed: mount options of StorageClass hearth may be ro, .*; remove all others$/,
    );
  });
});
