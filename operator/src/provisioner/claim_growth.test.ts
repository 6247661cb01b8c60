import assert from 'node:assert/strict';
import { HearthError } from '@hearth/common';
import type { KubernetesClient, PersistentVolume, PersistentVolumeClaim } from '@hearth/common/kubernetes';
import { reconcileKey } from '../reconciler/index.ts';
import { type GrowingClaim, GrowthReconciler, growingClaim, planGrowth } from './claim_growth.ts';
import { type VolumeView, volumeView } from './volume_reconciler.ts';

const { signal } = new AbortController();

function claim(request: string, capacity = '64Mi', metadata: object = {}): PersistentVolumeClaim {
  return {
    metadata: { namespace: 'team', name: 'kv', uid: 'u-1', ...metadata },
    spec: { volumeName: 'pvc-u-1', resources: { requests: { storage: request } } },
    ...(capacity === '' ? {} : { status: { capacity: { storage: capacity } } }),
  };
}

function growing(request = '1Gi'): GrowingClaim {
  const found = growingClaim(claim(request));
  assert.ok(found);
  return found;
}

function volume(capacity = '64Mi', fields: Partial<VolumeView> = {}): VolumeView {
  const object: PersistentVolume = {
    metadata: { name: 'pvc-u-1', uid: 'v-1', annotations: { 'pv.kubernetes.io/provisioned-by': 'csi.hearth.storage' } },
    spec: {
      capacity: { storage: capacity },
      claimRef: { namespace: 'team', name: 'kv', uid: 'u-1' },
      csi: {
        driver: 'csi.hearth.storage',
        volumeHandle: 'pvc-u-1',
        volumeAttributes: { cluster: 'main', volume: 'pvc-u-1' },
      },
    },
    status: { phase: 'Bound' },
  };
  const view = volumeView(object);
  assert.ok(view);
  return { ...view, ...fields };
}

describe('a claim that asks for more than it has', () => {
  it('is one that is bound to a smaller volume, however both are spelt', () => {
    assert.equal(growingClaim(claim('1Gi'))?.request, '1Gi');
    assert.equal(growingClaim(claim('1024Mi', '1Gi')), undefined);
    assert.equal(growingClaim(claim('32Mi')), undefined, 'a request that was taken back');
    assert.equal(growingClaim(claim('1Gi', '')), undefined, 'it is not bound');
    assert.equal(growingClaim(claim('1Gi', '64Mi', { deletionTimestamp: '2026-01-01T00:00:00Z' })), undefined);
  });

  it('gets a larger volume, and reports it then', () => {
    const kinds = (of: VolumeView | undefined, by = growing()) => planGrowth(by, of).map(({ kind }) => kind);
    assert.deepEqual(kinds(volume()), ['grow']);
    assert.deepEqual(
      planGrowth(growing(), volume('2Gi')),
      [{ kind: 'report', bytes: 2n << 30n }],
      'a request taken back',
    );
    assert.deepEqual(kinds(undefined), []);
    assert.deepEqual(kinds(volume('64Mi', { scratch: false })), [], 'a Dataset says how large it is');
    assert.deepEqual(kinds(volume('64Mi', { provisioned: false })), [], 'of an administrator');
    assert.deepEqual(kinds(volume('64Mi', { claim: 'other/kv' })), []);
    assert.deepEqual(kinds(volume('64Mi', { deleting: true })), []);
    assert.deepEqual(kinds(volume(), growing('1.5e9')), ['refuse']);
  });
});

describe('the reconciler of growing claims', () => {
  let steps: string[];
  let failure: HearthError | undefined;
  let present: VolumeView;
  const reconcile = async () => {
    const reconciler = new GrowthReconciler({
      api: {
        patch: async (type: { kind: string }, _name: string, _namespace: string, patch: object, options: object) => {
          const { subresource = '' } = options as { subresource?: string };
          steps.push(`${type.kind}/${subresource} ${JSON.stringify(patch)}`);
          if (type.kind === 'PersistentVolume') present = volume('1Gi');
        },
      } as unknown as KubernetesClient,
      events: { eventFor: (_kind, _object, type, reason, message) => void steps.push(`${type} ${reason}: ${message}`) },
      volumes: { get: () => present },
      scratch: {
        resize: async (cluster, name, bytes) => {
          if (failure !== undefined) throw failure;
          steps.push(`${cluster} ${name} ${bytes}`);
          return bytes;
        },
      },
    });
    await reconcileKey(reconciler, () => growing())('team/kv', signal);
  };
  beforeEach(() => {
    steps = [];
    failure = undefined;
    present = volume();
  });

  it('raises the limit before any object says so', async () => {
    for (let pass = 0; pass < 2; pass++) await reconcile();
    assert.deepEqual(steps, [
      'main pvc-u-1 1073741824',
      'PersistentVolume/ {"metadata":{"uid":"v-1"},"spec":{"capacity":{"storage":"1Gi"}}}',
      'PersistentVolumeClaim/status {"metadata":{"uid":"u-1"},"status":{"capacity":{"storage":"1Gi"}}}',
      'Normal VolumeResizeSuccessful: the volume takes 1Gi',
    ]);
  });

  it('says why a volume does not grow, and tries again', async () => {
    failure = new HearthError('Unavailable', 'no agent answers');
    await assert.rejects(reconcile(), { code: 'Unavailable' });
    assert.deepEqual(steps, ['Warning VolumeResizeFailed: no agent answers']);
  });
});
