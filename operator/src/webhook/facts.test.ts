import assert from 'node:assert/strict';
import { HearthError } from '@hearth/common';
import type { ChangeListener } from '@hearth/common/kubernetes';
import { MemoryApi, TestClock } from '@hearth/common/kubernetes/testing';
import type { Dataset } from '@hearth/common/resources';
import { until } from '@hearth/common/testing';
import type { ClaimView, VolumeFacts } from '../gates/index.ts';
import { claimed, claimOf, datasetOf, inline, podOf } from '../gates/testing/objects.ts';
import { Facts } from './facts.ts';

const signal = new AbortController().signal;
const timeoutMs = 150;

class Memory<P> {
  readonly #objects = new Map<string, P>();
  readonly #listeners = new Set<ChangeListener<P>>();
  get = (key: string) => this.#objects.get(key);
  get listeners() {
    return this.#listeners.size;
  }
  onChange = (listener: ChangeListener<P>) => {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  };
  put(key: string, value: P): void {
    this.#objects.set(key, value);
    for (const listener of this.#listeners) listener(key, undefined, value);
  }
}

describe('facts of a pod that is being made', () => {
  let api: MemoryApi;
  let claims: Memory<ClaimView>;
  let volumes: Memory<VolumeFacts>;
  let datasets: Memory<Dataset>;
  let facts: Facts;
  /** Stands still until a test moves it. */
  let clock: TestClock;
  beforeEach(() => {
    api = new MemoryApi();
    [claims, volumes, datasets] = [new Memory(), new Memory(), new Memory()];
    clock = new TestClock();
    facts = new Facts({ api, claims, volumes, datasets, timeoutMs, clock });
  });
  /** Moves time on by this when something is waited for. */
  const passWait = async (ms: number): Promise<void> => {
    await until('a wait', () => clock.next !== undefined);
    await clock.advance(ms);
  };
  const pod = podOf('web', [claimed('models')]);
  const store = (plural: string, object: object) => api.objects.set(plural, object);

  it('come from the reflectors without a question', async () => {
    claims.put('team/models', claimOf('llama'));
    datasets.put('team/llama', datasetOf('llama', undefined));
    const found = await facts.of(pod, 'team', signal);
    assert.deepEqual([found.datasets.length, found.missing], [1, []]);
    assert.deepEqual(api.calls, []);
  });

  it('come from the API server when the reflectors do not know, one after the other', async () => {
    const csi = {
      driver: 'csi.hearth.storage',
      volumeHandle: 'x',
      volumeAttributes: { datasetNamespace: 'team', dataset: 'llama' },
    };
    store('persistentvolumeclaims/team/models', { spec: { volumeName: 'pv-1' } });
    store('persistentvolumes/pv-1', { spec: { csi } });
    store('datasets/team/llama', datasetOf('llama', { mode: 'Wait' }));
    const found = await facts.of(pod, 'team', signal);
    assert.equal(found.datasets[0]?.spec.gate?.mode, 'Wait');
    assert.deepEqual(api.calls, ['get PersistentVolumeClaim models', 'get PersistentVolume pv-1', 'get Dataset llama']);
  });

  it('are waited for, and found by a watch', async () => {
    const asked = facts.of(podOf('web', [inline('llama')]), 'team', signal);
    await passWait(timeoutMs - 1);
    datasets.put('team/other', datasetOf('other', undefined));
    datasets.put('team/llama', datasetOf('llama', undefined));
    assert.deepEqual((await asked).missing, []);
    assert.equal(datasets.listeners, 0);
  });

  it('are asked for once more at the end, when a watch is late', async () => {
    const asked = facts.of(podOf('web', [inline('llama')]), 'team', signal);
    await passWait(timeoutMs - 1);
    store('datasets/team/llama', datasetOf('llama', undefined));
    await passWait(1);
    assert.deepEqual((await asked).missing, []);
  });

  it('are missing after the time, having been asked for twice', async () => {
    const asked = facts.of(pod, 'team', signal);
    await passWait(timeoutMs - 1);
    assert.equal(api.calls.length, 1, 'not before the time');
    await passWait(1);
    assert.deepEqual((await asked).missing, [{ kind: 'PersistentVolumeClaim', key: 'team/models' }]);
    assert.equal(api.calls.length, 2);
    assert.equal(claims.listeners, 0);
  });

  it('are asked for so often and no more, however many a pod names', async () => {
    const many = Array.from({ length: 500 }, (_, index) => claimed(`claim-${index}`));
    const asked = facts.of(podOf('web', many), 'team', signal);
    await passWait(timeoutMs);
    assert.equal((await asked).missing.length, 500);
    assert.equal(api.calls.length, 64);
  });

  it('fail with the API server, and end with their signal', async () => {
    api.fail = new HearthError('Unavailable', 'away');
    await assert.rejects(facts.of(pod, 'team', signal), { code: 'Unavailable' });
    api.fail = undefined;
    await assert.rejects(facts.of(pod, 'team', AbortSignal.timeout(30)));
    assert.equal(claims.listeners, 0);
  });
});
