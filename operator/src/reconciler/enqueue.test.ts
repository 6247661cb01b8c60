import assert from 'node:assert/strict';
import { type ChangeListener, type KubernetesObject, kinds } from '@hearth/common/kubernetes';
import { controllerKey, enqueueOnChange, ownKey } from './enqueue.ts';

describe('enqueueOnChange', () => {
  const owned = (owner: string, kind = 'StorageCluster', controller = true): KubernetesObject => ({
    metadata: {
      name: 'x',
      namespace: 'ns',
      ownerReferences: [{ apiVersion: 'hearth.storage/v1alpha1', kind, name: owner, uid: 'u', controller }],
    },
  });

  it('adds what is there, and what objects were and are', () => {
    const listeners: ChangeListener<KubernetesObject>[] = [];
    const objects = {
      keys: () => ['ns/x'],
      get: () => owned('first'),
      onChange: (listener: ChangeListener<KubernetesObject>) => {
        listeners.push(listener);
        return () => void listeners.pop();
      },
    };
    const added: string[] = [];
    const queue = { add: (key: string) => void added.push(key) };
    const stop = enqueueOnChange(objects, queue, controllerKey(kinds.StorageCluster));
    listeners[0]?.('ns/x', owned('first'), owned('second'));
    listeners[0]?.('ns/x', owned('second'), undefined);
    listeners[0]?.('ns/x', undefined, {});
    assert.deepEqual(added, ['first', 'first', 'second', 'second']);
    stop();
    assert.equal(listeners.length, 0);
    assert.deepEqual(ownKey({}, 'ns/y'), ['ns/y']);
  });

  it('knows owners by kind, in the namespace if they have one, and only those that control', () => {
    assert.deepEqual(controllerKey(kinds.Dataset)(owned('d', 'Dataset')), ['ns/d']);
    assert.deepEqual(controllerKey(kinds.Dataset)(owned('d', 'StorageCluster')), []);
    assert.deepEqual(controllerKey(kinds.StorageCluster)(owned('c', 'StorageCluster', false)), []);
  });
});
