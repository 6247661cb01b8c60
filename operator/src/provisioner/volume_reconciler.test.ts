import assert from 'node:assert/strict';
import { HearthError } from '@hearth/common';
import type { KubernetesClient, PersistentVolume } from '@hearth/common/kubernetes';
import { FakeAgents } from '../dataset/testing/fake_agents.ts';
import { reconcileKey } from '../reconciler/index.ts';
import { sampleCluster } from '../storage_cluster/testing/samples.ts';
import { type VolumeView, volumeView } from './volume_plan.ts';
import { VolumeReconciler } from './volume_reconciler.ts';
import { AgentVolumes } from './volumes.ts';

const { signal } = new AbortController();
const record = { name: 'pvc-1', dataset: 'team.llama', capacityBytes: 1n << 30n, manifest: '' };

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
  let agents: FakeAgents;
  let object: PersistentVolume | undefined;
  let seen: VolumeView | undefined;
  let clusters: string[];
  let calls: unknown[];
  let events: string[];
  let reconciler: VolumeReconciler;
  let now: number;

  beforeEach(() => {
    agents = new FakeAgents('main', async function* () {});
    clusters = ['main'];
    now = 0;
    calls = [];
    events = [];
    reconciler = new VolumeReconciler({
      api: {
        get: async () => object,
        delete: async (...given: unknown[]) => calls.push(['delete', given[1], given[3]]),
        patch: async (...given: unknown[]) => calls.push(['patch', given[1], given[3]]),
      } as unknown as KubernetesClient,
      events: {
        eventFor: (_kind, _object, type, reason, message) => void events.push(`${type} ${reason}: ${message}`),
      },
      volumes: new AgentVolumes(agents),
      clusters: { get: (name) => (clusters.includes(name) ? sampleCluster({}, { name }) : undefined) },
      now: () => now,
    });
  });
  const reconcile = (given: PersistentVolume) => {
    object = given;
    seen = volumeView(given);
    return pass();
  };
  const pass = () => reconcileKey(reconciler, () => seen)('pvc-1', signal);

  it('are known to agents while they are bound', async () => {
    await reconcile(volume('Bound'));
    assert.deepEqual(agents.volumes.get('pvc-1'), record);
    await reconcile(volume('Bound'));
    assert.equal(agents.called('createVolume').length, 1);
    agents.failing.set('getVolume', new HearthError('Unavailable', 'no agent answers'));
    assert.deepEqual(await reconcile(volume('Bound')), { requeueAfterMs: 30_000 });
  });

  it('get the affinity that the operator of a release before did not give them, once', async () => {
    await reconcile(volume('Bound', {}, null));
    assert.deepEqual(calls, [['patch', 'pvc-1', { metadata: { uid: 'u' }, spec: { nodeAffinity: affinity } }]]);
    await reconcile(volume('Bound'));
    await reconcile(volume('Bound', { annotations: {} }, null));
    assert.equal(calls.length, 1, 'those of administrators are theirs');
  });

  it('go in two steps, each of which may be the last before a crash', async () => {
    agents.volumes.set('pvc-1', record);
    await reconcile(volume('Released'));
    assert.equal(agents.volumes.size, 0);
    assert.deepEqual(calls, [['delete', 'pvc-1', { preconditions: { uid: 'u' }, signal }]]);
    await reconcile(volume('Released', { deletionTimestamp: '2026-01-01T00:00:00Z' }));
    const metadata = { uid: 'u', resourceVersion: '7', finalizers: ['kubernetes.io/pv-protection'] };
    assert.deepEqual(calls[1], ['patch', 'pvc-1', { metadata }]);
  });

  it('stay, with an event, while agents cannot be reached, but not for a cluster that is gone', async () => {
    agents.failing.set('deleteVolume', new HearthError('Unavailable', 'no agent answers'));
    await assert.rejects(reconcile(volume('Released')), { code: 'Unavailable' });
    assert.deepEqual(events, ['Warning VolumeFailedDelete: no agent answers']);
    assert.deepEqual(calls, []);
    clusters = [];
    await reconcile(volume('Released'));
    assert.equal(calls.length, 1);
  });

  it('end without agents that cannot be reached for five minutes, having waited once for both steps', async () => {
    agents.failing.set('deleteVolume', new HearthError('Unavailable', 'no agent answers'));
    await assert.rejects(reconcile(volume('Released')));
    now = 299_999;
    await assert.rejects(reconcile(volume('Released')));
    now = 300_000;
    await reconcile(volume('Released'));
    await reconcile(volume('Released', { deletionTimestamp: '2026-01-01T00:00:00Z' }));
    assert.deepEqual(
      calls.map((call) => (call as unknown[])[0]),
      ['delete', 'patch'],
    );
    assert.match(events.at(-1) ?? '', /^Warning DeletedWithoutAgents: agents of StorageCluster main did not forget/);
  });

  it('wait for agents that answer with a refusal', async () => {
    agents.failing.set('deleteVolume', new HearthError('Internal', 'the store is damaged'));
    for (now = 0; now <= 900_000; now += 300_000) await assert.rejects(reconcile(volume('Released')));
    assert.deepEqual(calls, []);
  });

  it('that were made again under the same name keep their finalizer', async () => {
    seen = volumeView(volume('Released', { deletionTimestamp: '2026-01-01T00:00:00Z' }));
    object = volume('Bound', { uid: 'u-2' });
    await pass();
    assert.deepEqual(calls, []);
  });
});
