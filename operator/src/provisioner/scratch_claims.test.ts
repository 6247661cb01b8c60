import assert from 'node:assert/strict';
import { HearthError, type RequestOf } from '@hearth/common';
import { NodeStatus } from '@hearth/common/generated/hearth/v1/control.ts';
import type { KubernetesClient, PersistentVolume, PersistentVolumeClaim } from '@hearth/common/kubernetes';
import type { StorageCluster } from '@hearth/common/resources';
import type { CallOptions, ClusterAgents, ClusterStatus } from '../agents/index.ts';
import { reconcileKey } from '../reconciler/index.ts';
import { sampleCluster } from '../storage_cluster/testing/samples.ts';
import { classView, pendingClaim } from './claim.ts';
import { planClaim } from './claim_plan.ts';
import { ScratchVolumes } from './scratch_volumes.ts';
import { persistentVolume, VolumeReconciler, volumeView } from './volume_reconciler.ts';

const driver = 'csi.hearth.storage';
const { signal } = new AbortController();
const main = sampleCluster({}, { name: 'main' });
const other = sampleCluster({}, { name: 'other' });

function claim(spec: Partial<NonNullable<PersistentVolumeClaim['spec']>> = {}, annotations: object = {}) {
  return pendingClaim({
    metadata: {
      namespace: 'team',
      name: 'kv',
      uid: 'u-1',
      annotations: { 'volume.kubernetes.io/storage-provisioner': driver, ...annotations },
    },
    spec: {
      storageClassName: 'hearth-scratch',
      accessModes: ['ReadWriteMany'],
      resources: { requests: { storage: '100Mi' } },
      ...spec,
    },
  });
}

function storageClass(parameters: Record<string, string> = {}, mountOptions: string[] = []) {
  return classView({
    metadata: { name: 'hearth-scratch' },
    provisioner: driver,
    parameters: { kind: 'scratch', ...parameters },
    mountOptions,
    reclaimPolicy: 'Delete',
  });
}

function planned(of = claim(), by = storageClass(), clusters: readonly StorageCluster[] = [main]) {
  const plan = planClaim(of, by, undefined, clusters);
  return plan.kind === 'wait' ? `${plan.type} ${plan.reason}: ${plan.message}` : plan;
}

function request(of = claim()) {
  const plan = planned(of);
  assert.ok(typeof plan === 'object' && plan.kind === 'provision');
  return plan.request;
}

describe('claims of scratch volumes', () => {
  it('get an empty volume of the size that they ask for, which no Dataset decides about', () => {
    const { scratch, name, cluster, capacityBytes } = request();
    assert.deepEqual([scratch, name, cluster.metadata.name, capacityBytes], [true, 'pvc-u-1', 'main', 100n << 20n]);
  });

  it('wait for their StorageCluster, which the class names where there are several', () => {
    assert.equal(planned(claim(), storageClass(), []), 'Normal WaitingForStorageCluster: waits for a StorageCluster');
    const second = storageClass({ cluster: 'second' });
    assert.match(String(planned(claim(), second)), /^Normal WaitingForStorageCluster: .* StorageCluster second$/);
    assert.match(
      String(planned(claim(), storageClass(), [main, other])),
      /^Warning ProvisioningFailed: .*parameter cluster/,
    );
    const plan = planned(claim(), storageClass({ cluster: 'other' }), [main, other]);
    assert.ok(typeof plan === 'object' && plan.kind === 'provision');
    assert.equal(plan.request.cluster.metadata.name, 'other');
  });

  it('are refused with the way out', () => {
    const dataSourceRef = { apiGroup: 'hearth.storage', kind: 'Dataset', name: 'llama' };
    assert.match(String(planned(claim({ dataSourceRef }))), /begins empty; remove dataSourceRef/);
    assert.match(String(planned(claim(), storageClass({ kind: 'durable' }))), /kind durable; .* of the kind scratch/);
    assert.match(String(planned(claim({ volumeMode: 'Block' }))), /volumeMode: Filesystem/);
    assert.match(String(planned(claim(), storageClass({}, ['ro']))), /mount options .* may be nosuid,/);
  });

  it('get a PersistentVolume that names the volume, and is held until the files are removed', () => {
    const { metadata, spec } = persistentVolume(request(), 'b');
    assert.equal(metadata?.annotations?.['hearth.storage/log-node'], 'b');
    assert.deepEqual(metadata?.finalizers, ['hearth.storage/finalizer']);
    assert.deepEqual(spec?.csi?.volumeAttributes, { cluster: 'main', volume: 'pvc-u-1' });
    assert.deepEqual(spec?.accessModes, ['ReadWriteMany']);
  });
});

/** The agents of main, which remember what they were asked. */
class RememberingAgents {
  readonly calls: [string, RequestOf<'createWritableVolume'> | RequestOf<'deleteWritableVolume'>, string?][] = [];
  failure: HearthError | undefined;
  readonly status: ClusterStatus;

  constructor(...nodes: string[]) {
    const able = { ready: true, apiFeatures: ['writable-volumes'] };
    const status = [
      ...nodes.map((node) => ({ node, ...able })),
      { node: 'old', ready: true },
      { node: 'z', ...able, ready: false },
    ];
    this.status = {
      nodes: new Map(status.map((one) => [one.node, NodeStatus.fromPartial(one as never)])),
    } as unknown as ClusterStatus;
  }

  get(cluster: string): ClusterAgents | undefined {
    return cluster === 'main' ? (this as unknown as ClusterAgents) : undefined;
  }

  async call(name: string, asked: RequestOf<'createWritableVolume'>, { node, feature }: CallOptions): Promise<object> {
    assert.equal(feature, 'writable-volumes');
    this.calls.push([name, asked, ...(node === undefined ? [] : [node])] as never);
    if (this.failure !== undefined) throw this.failure;
    return { logNode: node ?? 'anywhere' };
  }
}

describe('scratch volumes of claims', () => {
  const created = { name: 'pvc-u-1', kind: 'scratch', maxBytes: 100n << 20n, maxFiles: 0n, deadlineMs: 0n };

  it('have their log on the node of the first pod, else on a ready one, always the same for a volume', async () => {
    const agents = new RememberingAgents('a', 'b', 'c');
    const volumes = new ScratchVolumes(agents);
    const selected = claim({}, { 'volume.kubernetes.io/selected-node': 'b' });
    assert.equal(await volumes.create(request(selected), signal), 'b');
    assert.deepEqual(agents.calls, [['createWritableVolume', created, 'b']]);
    const chosen = new Set<string>();
    for (let number = 0; number < 64; number++) {
      const one = { ...request(), name: `pvc-${number}` };
      for (let round = 0; round < 2; round++) await volumes.create(one, signal);
      const nodes: Set<string> = new Set(agents.calls.splice(-2).map(([, , node]) => String(node)));
      assert.equal(nodes.size, 1);
      for (const node of nodes) chosen.add(node);
    }
    assert.deepEqual([...chosen].sort(), ['a', 'b', 'c']);
  });

  it('are made by any agent before one has reported, and wait without agents', async () => {
    const agents = new RememberingAgents();
    await new ScratchVolumes(agents).create(request(), signal);
    assert.deepEqual(agents.calls, [['createWritableVolume', created]]);
    await assert.rejects(new ScratchVolumes({ get: () => undefined }).create(request(), signal), {
      code: 'Unavailable',
      message: /StorageCluster main has no agents/,
    });
  });
});

describe('released scratch volumes', () => {
  let agents: RememberingAgents;
  let cluster: StorageCluster | undefined;
  let object: PersistentVolume;
  let steps: string[];
  const reconcile = async () => {
    const api = {
      get: async () => object,
      delete: async () => steps.push('delete the object'),
      patch: async () => steps.push('remove the finalizer'),
    } as unknown as KubernetesClient;
    const reconciler = new VolumeReconciler({
      api,
      clusters: { get: () => cluster },
      scratch: new ScratchVolumes(agents),
      events: { eventFor: (_kind, _object, type, reason, message) => void steps.push(`${type} ${reason}: ${message}`) },
    });
    await reconcileKey(reconciler, () => volumeView(object))('pvc-u-1', signal);
  };

  beforeEach(() => {
    agents = new RememberingAgents('a');
    cluster = main;
    steps = [];
    const made = persistentVolume(request());
    object = { ...made, metadata: { ...made.metadata, uid: 'u' }, status: { phase: 'Released' } };
  });
  const beginDeletion = () => {
    object.metadata = { ...object.metadata, deletionTimestamp: '2026-01-01T00:00:00Z' };
  };

  it('go with their files, and the files first', async () => {
    await reconcile();
    assert.deepEqual([steps, agents.calls], [['delete the object'], []]);
    beginDeletion();
    await reconcile();
    assert.deepEqual(agents.calls, [['deleteWritableVolume', { name: 'pvc-u-1', force: false }]]);
    assert.deepEqual(steps, ['delete the object', 'remove the finalizer']);
  });

  it('stay while a node has them mounted, and say so', async () => {
    beginDeletion();
    agents.failure = new HearthError('InUse', 'volume pvc-u-1 is mounted on n');
    await assert.rejects(reconcile(), { code: 'InUse' });
    assert.deepEqual(steps, ['Warning VolumeFailedDelete: volume pvc-u-1 is mounted on n']);
  });

  it('go when their files have gone before, or with the StorageCluster', async () => {
    beginDeletion();
    agents.failure = new HearthError('NotFound', 'there is no volume pvc-u-1');
    await reconcile();
    cluster = undefined;
    await reconcile();
    assert.equal(agents.calls.length, 1);
    assert.deepEqual(steps, ['remove the finalizer', 'remove the finalizer']);
  });

  it('keep their files with the policy Retain, and while a claim has them', async () => {
    beginDeletion();
    object.status = { phase: 'Bound' };
    await reconcile();
    object.status = { phase: 'Released' };
    if (object.spec) object.spec.persistentVolumeReclaimPolicy = 'Retain';
    await reconcile();
    assert.deepEqual([steps, agents.calls], [['remove the finalizer'], []]);
  });
});
