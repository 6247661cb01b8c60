import assert from 'node:assert/strict';
import type { KubernetesObject } from './object.ts';
import type { ChangeListener } from './reflector.ts';
import { hasNewSpec, ownKey, watch } from './watch.ts';

describe('watch', () => {
  function follow(keysOf: Parameters<typeof watch<KubernetesObject>>[1], afterMs?: number | (() => number)) {
    const listeners: ChangeListener<KubernetesObject>[] = [];
    const onChange = (listener: ChangeListener<KubernetesObject>) => {
      listeners.push(listener);
      return () => void listeners.pop();
    };
    const added: [string, number][] = [];
    const queue = { addAfter: (key: string, ms: number) => void added.push([key, ms]) };
    const stop = watch({ onChange }, keysOf, afterMs).start(queue);
    return { listeners, added, stop };
  }

  it('adds the keys concerned before and after each change, until stopped', () => {
    const ownerNames = (object?: KubernetesObject) => object?.metadata?.ownerReferences?.map(({ name }) => name) ?? [];
    const owned = (name: string): KubernetesObject => ({
      metadata: { ownerReferences: [{ apiVersion: 'test.example/v1', kind: 'Whole', name, uid: 'u' }] },
    });
    const { listeners, added, stop } = follow((_key, before, after) => [...ownerNames(before), ...ownerNames(after)]);
    listeners[0]?.('ns/x', owned('first'), owned('second'));
    listeners[0]?.('ns/x', owned('second'), undefined);
    listeners[0]?.('ns/x', undefined, {});
    assert.deepEqual(
      added.map(([key]) => key),
      ['first', 'second', 'second'],
    );
    stop();
    assert.equal(listeners.length, 0);
  });

  it('adds keys at once, or after a delay that may vary', () => {
    const times = [5, 7];
    for (const [afterMs, expected] of [
      [undefined, [0, 0]],
      [3, [3, 3]],
      [() => times.shift() ?? 0, [5, 7]],
    ] as const) {
      const { listeners, added } = follow(ownKey, afterMs);
      for (const key of ['a', 'b']) listeners[0]?.(key, undefined, {});
      assert.deepEqual(
        added,
        ['a', 'b'].map((key, index) => [key, expected[index]]),
      );
    }
  });

  it('adds nothing when keysOf returns nothing', () => {
    const { listeners, added } = follow(() => undefined);
    listeners[0]?.('a', undefined, {});
    assert.deepEqual(added, []);
  });

  it('detects a new spec by its generation', () => {
    const object = (generation: number): KubernetesObject => ({ metadata: { name: 'x', generation } });
    assert.equal(hasNewSpec(object(1), object(1)), false);
    assert.equal(hasNewSpec(object(1), object(2)), true);
    assert.equal(hasNewSpec(undefined, object(1)), true);
    assert.equal(hasNewSpec(object(1), undefined), true);
  });
});
