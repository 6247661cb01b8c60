import assert from 'node:assert/strict';
import { silentLogger } from '@hearth/common';
import { kinds, type Pod } from '@hearth/common/kubernetes';
import { type Dataset, driverName } from '@hearth/common/resources';
import { until } from '@hearth/common/testing';
import type { Source } from '../kubernetes/index.ts';
import { type AwaitingPod, awaitingPod, runWaitingController, WaitingPods } from './waiting_pods.ts';

const volume = (dataset: string) => ({ name: dataset, csi: { driver: driverName, volumeAttributes: { dataset } } });
const pod = (more: { status?: Pod['status']; spec?: object; metadata?: object } = {}) =>
  ({
    metadata: { namespace: 'team', name: 'web', uid: 'u1', ...more.metadata },
    spec: { nodeName: 'n1', containers: [], volumes: [volume('b'), volume('a')], ...more.spec },
    status: { phase: 'Pending', ...more.status },
  }) as Pod;
const waits: AwaitingPod = { namespace: 'team', name: 'web', uid: 'u1', datasets: ['a', 'b'] };

describe('a pod that waits for Datasets', () => {
  it('is on a node and has started nothing', () => {
    assert.deepEqual(awaitingPod(pod()), waits);
    const state = { running: { startedAt: new Date('2026-01-01') } };
    const container = { name: 'init', image: '', imageID: '', ready: false, restartCount: 0, state };
    for (const other of [
      pod({ spec: { nodeName: undefined } }),
      pod({ spec: { volumes: [] } }),
      pod({ status: { phase: 'Running' } }),
      pod({ status: { initContainerStatuses: [container] } as object }),
      pod({ metadata: { deletionTimestamp: '2026-01-01T00:00:00Z' } }),
    ]) {
      assert.equal(awaitingPod(other), undefined, JSON.stringify(other));
    }
  });
});

/** The content of a reflector, without one. */
class Objects<P> implements Source<P> {
  readonly #objects = new Map<string, P>();
  readonly #listeners = new Set<(key: string, before?: P, after?: P) => void>();
  get = (key: string) => this.#objects.get(key);
  all = () => [...this.#objects.values()];
  keys = () => [...this.#objects.keys()];
  synced = async () => undefined;
  onChange = (listener: (key: string, before?: P, after?: P) => void) => {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  };
  set(key: string, after: P | undefined): void {
    const before = this.#objects.get(key);
    if (after === undefined) this.#objects.delete(key);
    else this.#objects.set(key, after);
    for (const listener of this.#listeners) listener(key, before, after);
  }
}

describe('events of pods that wait for Datasets', () => {
  const dataset = (reason: string, message = reason, status = 'False') =>
    ({ status: { conditions: [{ type: 'Ready', status, reason, message }] } }) as Dataset;
  let told: string[];
  const events = {
    eventFor: (type: unknown, { metadata }: { metadata?: { name?: string } }, ...words: string[]) => {
      assert.equal(type, kinds.Pod);
      told.push([metadata?.name, ...words].join(' '));
    },
  } as never;
  beforeEach(() => {
    told = [];
  });

  it("repeat the Dataset's own message and name the command that says more", async () => {
    const refused = dataset(
      'SecretForbidden',
      'the operator may not read the Secret team/hub; allow it with: kubectl x',
    );
    const known = new Map([
      ['team/a', refused],
      ['team/b', dataset('Ready', '', 'True')],
    ]);
    const reconciler = new WaitingPods({ datasets: { get: (key) => known.get(key) }, events });
    for (const report of reconciler.plan(waits, await reconciler.observe(waits))) await reconciler.apply(report, waits);
    assert.deepEqual(told, [
      'web Warning DatasetNotReady Dataset a is not ready (SecretForbidden): the operator may not read the Secret team/hub; allow it with: kubectl x; kubectl describe dataset -n team a says more',
    ]);
    assert.deepEqual(reconciler.plan(waits, await reconciler.observe(waits)), [], 'once');
    known.set('team/a', dataset('Unauthenticated', 'x'.repeat(2000)));
    known.delete('team/b');
    const [long, absent] = reconciler.plan(waits, await reconciler.observe(waits));
    assert.match(long?.message ?? '', /^.{1,1000}x\.\.\.; kubectl describe dataset -n team a says more$/);
    assert.match(absent?.message ?? '', /^There is no Dataset b in namespace team: create it/);
    known.set('team/a', dataset('Listing'));
    known.set('team/b', {} as Dataset);
    assert.deepEqual(reconciler.plan(waits, await reconciler.observe(waits)), [], 'it comes by itself');
  });

  it('follow the pod and its Datasets', async () => {
    const [pods, datasets] = [new Objects<AwaitingPod>(), new Objects<Dataset>()];
    datasets.set('team/a', dataset('Ready', '', 'True'));
    datasets.set('team/b', dataset('SecretNotFound'));
    pods.set('team/web', waits);
    const ending = new AbortController();
    const running = runWaitingController({ pods, datasets, events, logger: silentLogger }, ending.signal);
    await until('the pod that is there hears of b', () => told.length === 1);
    datasets.set('team/a', dataset('Unauthenticated'));
    await until('it hears of a', () => told.length === 2);
    datasets.set('team/a', dataset('Unauthenticated'));
    datasets.set('team/b', dataset('Ready', '', 'True'));
    pods.set('team/web', undefined);
    datasets.set('team/a', dataset('PermissionDenied'));
    pods.set('team/next', { ...waits, name: 'next', uid: 'u2' });
    await until('the next pod hears', () => told.length === 3);
    assert.deepEqual(
      told.map((one) => one.split(' ').slice(0, 5).join(' ')),
      [
        'web Warning DatasetNotReady Dataset b',
        'web Warning DatasetNotReady Dataset a',
        'next Warning DatasetNotReady Dataset a',
      ],
    );
    ending.abort();
    await running;
  });
});
