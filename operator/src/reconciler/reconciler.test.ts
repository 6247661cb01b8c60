import assert from 'node:assert/strict';
import { HearthError, silentLogger } from '@hearth/common';
import { type KubernetesObject, resourceType, splitKey } from '@hearth/common/kubernetes';
import { MemoryApi } from '@hearth/common/kubernetes/testing';
import { type Condition, finalizerName } from '@hearth/common/resources';
import type { CleanUpResult, ConditionState, DesiredStatus, ObjectReconciler, Pass, Reconciler } from './reconciler.ts';
import { reconcileKey, reconcileObject } from './shell.ts';

interface Widget extends KubernetesObject {
  spec: { wanted: string[] };
  status?: { observedGeneration?: number; conditions?: Condition[]; made?: number };
}
const widgets = resourceType<Widget>('test.example', 'v1', 'widgets', 'Widget', 'Namespaced');
type Observed = { made: string[] };

/** Makes what the spec wants in a list, one thing an action. */
class WidgetReconciler implements ObjectReconciler<Widget, Observed, string> {
  readonly type = widgets;
  readonly progressReasons = ['Making'];
  readonly announcedConditions = ['Known'];
  known: ConditionState = { type: 'Known', status: 'True', reason: 'Seen', message: 'Seen' };
  readonly made: string[] = [];
  observeError: Error | undefined;
  applyError: Error | undefined;
  ready: ConditionState | undefined;
  cleaning: CleanUpResult | Error = 'done';

  async observe(): Promise<Observed> {
    if (this.observeError !== undefined) throw this.observeError;
    return { made: [...this.made] };
  }

  plan({ spec }: Widget, { made }: Observed): string[] {
    return spec.wanted.filter((name) => !made.includes(name));
  }

  async apply(action: string): Promise<void> {
    if (this.applyError !== undefined && action !== 'easy') throw this.applyError;
    this.made.push(action);
  }

  status({ spec }: Widget, { observed, applied }: Pass<Observed, string>): DesiredStatus<Widget> {
    const made = observed.made.length + applied.length;
    const done: ConditionState = { type: 'Ready', status: 'True', reason: 'Made', message: 'All is made' };
    const making: ConditionState = { type: 'Ready', status: 'False', reason: 'Making', message: `${made} made` };
    const ready = this.ready ?? (made === spec.wanted.length ? done : making);
    return { made, conditions: [ready, this.known] };
  }

  requeueAfterMs(): number {
    return 60_000;
  }

  async cleanUp(): Promise<CleanUpResult> {
    if (this.cleaning instanceof Error) throw this.cleaning;
    return this.cleaning;
  }
}

describe('reconcileObject', () => {
  const key = 'ns/a';
  let api: MemoryApi;
  let reconciler: WidgetReconciler;
  let events: string[];
  let now: Date;
  beforeEach(() => {
    api = new MemoryApi();
    reconciler = new WidgetReconciler();
    events = [];
    now = new Date('2026-01-01T00:00:00.500Z');
  });

  const present = (): Widget | undefined => api.objects.get(`widgets/${key}`) as Widget | undefined;
  const make = async (wanted: string[]): Promise<void> => {
    await api.create(widgets, { metadata: { ...splitKey(key), generation: 3 }, spec: { wanted } });
    api.calls.length = 0;
  };
  const pass = (objects: { get(key: string): Widget | undefined } = { get: present }) =>
    reconcileObject<Widget, Observed, string>({
      reconciler,
      api,
      objects,
      events: {
        eventFor: (_kind, _object, type, reason, message) => void events.push(`${type} ${reason}: ${message}`),
      },
      logger: silentLogger,
      now: () => now,
    })(key, new AbortController().signal);
  const ready = (): Condition | undefined => present()?.status?.conditions?.find(({ type }) => type === 'Ready');

  it('sets the finalizer before anything else, does what is to be done, and reports it', async () => {
    await make(['easy', 'b']);
    const result = await pass();
    assert.deepEqual(api.calls, ['patch Widget a', 'apply status Widget a']);
    assert.deepEqual(present()?.metadata?.finalizers, [finalizerName]);
    assert.deepEqual(reconciler.made, ['easy', 'b']);
    assert.deepEqual(present()?.status, {
      made: 2,
      observedGeneration: 3,
      conditions: [
        {
          type: 'Ready',
          status: 'True',
          observedGeneration: 3,
          lastTransitionTime: '2026-01-01T00:00:00Z',
          reason: 'Made',
          message: 'All is made',
        },
        {
          type: 'Known',
          status: 'True',
          observedGeneration: 3,
          lastTransitionTime: '2026-01-01T00:00:00Z',
          reason: 'Seen',
          message: 'Seen',
        },
      ],
    });
    assert.deepEqual(events, ['Normal Made: All is made']);
    assert.deepEqual(result, { requeueAfterMs: 60_000 });
  });

  it('writes and reports nothing when nothing has changed, however the server orders conditions', async () => {
    await make(['b']);
    await pass();
    present()?.status?.conditions?.reverse();
    api.calls.length = 0;
    events.length = 0;
    now = new Date('2027-01-01T00:00:00Z');
    await pass();
    assert.deepEqual(api.calls, []);
    assert.deepEqual(events, []);
  });

  it('renews the time of a condition only when its status changes', async () => {
    await make(['b']);
    await pass();
    now = new Date('2026-01-02T00:00:00Z');
    reconciler.ready = { type: 'Ready', status: 'True', reason: 'Made', message: 'Other words' };
    await pass();
    assert.equal(ready()?.lastTransitionTime, '2026-01-01T00:00:00Z');
    assert.equal(ready()?.message, 'Other words');
    reconciler.ready = { type: 'Ready', status: 'False', reason: 'OriginUnreachable', message: 'No answer' };
    await pass();
    assert.equal(ready()?.lastTransitionTime, '2026-01-02T00:00:00Z');
    reconciler.ready = { type: 'Ready', status: 'False', reason: 'Making', message: 'x'.repeat(5_000) };
    await pass();
    assert.equal(ready()?.message.length, 4_096);
    assert.deepEqual(
      events.map((event) => event.slice(0, 40)),
      ['Normal Made: All is made', 'Warning OriginUnreachable: No answer', `Normal Making: ${'x'.repeat(25)}`],
    );
  });

  it('reports when a condition that is to be announced does not hold, and when it holds again', async () => {
    await make([]);
    await pass();
    events.length = 0;
    reconciler.known = { ...reconciler.known, status: 'False', reason: 'Lost', message: 'Out of sight' };
    await pass();
    await pass();
    reconciler.known = { ...reconciler.known, status: 'True', reason: 'Seen', message: 'Seen' };
    await pass();
    assert.deepEqual(events, ['Warning KnownLost: Out of sight', 'Normal KnownSeen: Seen']);
  });

  it('reports a failed action on the object and by one event, keeps what was done, and has it tried again', async () => {
    await make(['easy', 'hard', 'later']);
    reconciler.applyError = new HearthError('PermissionDenied', 'may not');
    await assert.rejects(pass(), /may not/);
    assert.deepEqual(reconciler.made, ['easy'], 'nothing after the failed one');
    assert.equal(present()?.status?.made, 1);
    assert.deepEqual([ready()?.status, ready()?.reason], ['False', 'Making'], 'the reconciler has said why');
    assert.equal(events.length, 1);
    events.length = 0;
    reconciler.ready = { type: 'Ready', status: 'True', reason: 'Made', message: 'not knowing' };
    await assert.rejects(pass(), /may not/);
    assert.deepEqual([ready()?.status, ready()?.reason, ready()?.message], ['False', 'PermissionDenied', 'may not']);
    assert.deepEqual(events, ['Warning PermissionDenied: may not']);
  });

  it('keeps the figures of the last pass when nothing can be observed', async () => {
    await make(['b']);
    await pass();
    reconciler.observeError = new Error('unexpected');
    await assert.rejects(pass(), /unexpected/);
    assert.equal(present()?.status?.made, 1);
    assert.deepEqual([ready()?.status, ready()?.reason], ['False', 'Internal']);
    assert.ok(present()?.status?.conditions?.some(({ type }) => type === 'Known'));
  });

  it('leaves people alone with conflicts', async () => {
    await make(['b']);
    reconciler.applyError = new HearthError('Conflict', 'somebody was faster');
    await assert.rejects(pass(), /faster/);
    assert.equal(present()?.status, undefined);
    assert.deepEqual(events, []);
  });

  it('does not write from an object that is older than its own last write', async () => {
    await make(['b']);
    const old = structuredClone(present());
    await pass();
    const version = present()?.metadata?.resourceVersion;
    reconciler.made.length = 0;
    await assert.rejects(pass({ get: () => old }), (thrown: HearthError) => thrown.code === 'Conflict');
    assert.equal(present()?.metadata?.resourceVersion, version);
  });

  it('cleans up until it is done, then lets the object go', async () => {
    await make(['b']);
    await pass();
    const object = present();
    assert.ok(object?.metadata);
    object.metadata.deletionTimestamp = '2026-01-01T00:00:00Z';
    object.metadata.finalizers?.push('other.example/finalizer');
    events.length = 0;
    reconciler.cleaning = { waitingFor: 'Two pods still read it' };
    assert.deepEqual(await pass(), { requeueAfterMs: 5_000 });
    assert.deepEqual([ready()?.reason, ready()?.message], ['Deleting', 'Two pods still read it']);
    assert.deepEqual(events, ['Normal Deleting: Two pods still read it']);
    reconciler.cleaning = new HearthError('Unavailable', 'no agent answers');
    await assert.rejects(pass(), /no agent/);
    assert.equal(ready()?.reason, 'Unavailable');
    reconciler.cleaning = 'done';
    assert.deepEqual(await pass(), {});
    assert.deepEqual(present()?.metadata?.finalizers, ['other.example/finalizer']);
    api.calls.length = 0;
    assert.deepEqual(await pass(), {}, 'what others still hold is not our concern');
    assert.deepEqual(api.calls, []);
  });

  it('reports nothing of an object that an earlier pass let go', async () => {
    await make(['b']);
    await pass();
    const stale = structuredClone(present());
    assert.ok(stale?.metadata);
    stale.metadata.deletionTimestamp = '2026-01-01T00:00:00Z';
    events.length = 0;
    api.objects.clear();
    assert.deepEqual(await pass({ get: () => stale }), {});
    assert.deepEqual(events, []);
  });

  it('has nothing to do for objects that are gone, before or while it works', async () => {
    assert.deepEqual(await pass(), {});
    await make(['b']);
    const object = present();
    const seen = [object];
    api.objects.clear();
    assert.deepEqual(await pass({ get: () => seen.shift() }), {});
  });
});

describe('reconcileKey', () => {
  const { signal } = new AbortController();
  /** Takes steps that are left, and asks for another pass as each step says. */
  const steps = (left: (number | undefined | Error)[], requeueAfterMs?: number) => {
    const taken: (number | undefined)[] = [];
    const reconciler: Reconciler<string, typeof left, number | undefined | Error> = {
      observe: async () => left,
      plan: (_key, seen) => [...seen],
      apply: async (step) => {
        if (step instanceof Error) throw step;
        taken.push(step);
        return step === undefined ? undefined : { requeueAfterMs: step };
      },
      requeueAfterMs: () => requeueAfterMs,
    };
    return { taken, pass: reconcileKey(reconciler, (key) => (key === 'gone' ? undefined : key)) };
  };

  it('has nothing to do for what is gone', async () => {
    const { taken, pass } = steps([1]);
    assert.deepEqual([await pass('gone', signal), taken], [{}, []]);
  });

  it('comes again at the earliest time that an action or the observation asks for', async () => {
    assert.deepEqual(await steps([undefined]).pass('a', signal), {});
    assert.deepEqual(await steps([undefined, 30, 20]).pass('a', signal), { requeueAfterMs: 20 });
    assert.deepEqual(await steps([30], 10).pass('a', signal), { requeueAfterMs: 10 });
  });

  it('ends with the first action that fails, or when it is to end', async () => {
    const { taken, pass } = steps([1, new HearthError('Unavailable', 'no agent'), 2]);
    await assert.rejects(pass('a', signal), { code: 'Unavailable' });
    assert.deepEqual(taken, [1]);
    const ending = new AbortController();
    ending.abort();
    const other = steps([1]);
    await assert.rejects(other.pass('a', ending.signal));
    assert.deepEqual(other.taken, []);
  });
});
