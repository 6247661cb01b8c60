import assert from 'node:assert/strict';
import { objectKey } from '@hearth/common/kubernetes';
import { DatasetReconciler, type DatasetReconcilerOptions } from './dataset_reconciler.ts';
import { dataset, now } from './testing/fixtures.ts';

describe('the reconciler of Datasets', () => {
  it('keeps no Secret that its Dataset does not name any more', async () => {
    const known = new Set<string>();
    const secrets: DatasetReconcilerOptions['secrets'] = {
      get: async (namespace, name) => {
        known.add(`${namespace}/${name}`);
        return { kind: 'found', data: { token: 'YQ==' } };
      },
      forget: (namespace, name) => void known.delete(`${namespace}/${name}`),
      staleInMs: () => 0,
      retrySoon: () => {},
    };
    const reconciler = new DatasetReconciler({
      agents: { get: () => undefined },
      clusters: () => [],
      users: () => [],
      volumes: () => [],
      secrets,
      grant: { clusterRole: 'r', serviceAccount: { namespace: 'n', name: 's' } },
      resolutions: { get: () => undefined, start: () => {}, forget: () => {} },
      removal: {} as never,
      events: { eventFor: () => {} },
      now: () => now,
    });
    const observe = (secretRef?: { name: string }) =>
      reconciler.observe(dataset(secretRef === undefined ? {} : { secretRef }));
    await observe({ name: 'first' });
    await observe({ name: 'first' });
    assert.deepEqual([...known], ['team/first']);
    await observe({ name: 'second' });
    assert.deepEqual([...known], ['team/second']);
    await observe();
    assert.deepEqual([...known], []);
    await observe({ name: 'third' });
    reconciler.forget(objectKey(dataset()), dataset());
    assert.deepEqual([...known], []);
  });
});
