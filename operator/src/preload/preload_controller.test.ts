import assert from 'node:assert/strict';
import { silentLogger } from '@hearth/common';
import { WarmJob } from '@hearth/common/generated/hearth/v1/control.ts';
import { objectKey } from '@hearth/common/kubernetes';
import { type CachePreload, finalizerName } from '@hearth/common/resources';
import { elapse, until } from '@hearth/common/testing';
import type { Agents, ClusterStatus } from '../agents/index.ts';
import { sampleCluster } from '../storage_cluster/testing/samples.ts';
import { runPreloadController } from './preload_controller.ts';
import { ReadinessCache } from './readiness.ts';
import { preloadObject, uid } from './testing/fixtures.ts';

type Listener = (key: string, before: unknown, after: unknown) => void;

/** A reflector whose objects a test sets. */
class Known<T> {
  readonly #objects = new Map<string, T>();
  readonly #listeners = new Set<Listener>();

  constructor(objects: Record<string, T> = {}) {
    for (const [key, object] of Object.entries(objects)) this.#objects.set(key, object);
  }

  put(key: string, object: T): void {
    const before = this.#objects.get(key);
    this.#objects.set(key, object);
    for (const listener of this.#listeners) listener(key, before, object);
  }

  get = (key: string) => this.#objects.get(key);
  all = () => [...this.#objects.values()];
  keys = () => [...this.#objects.keys()];
  synced = async () => undefined;
  onChange = (listener: Listener) => {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  };
}

describe('controller of CachePreloads', () => {
  const jobName = `preload-${uid}-aaaaaaaaaa-bbbbbbbbbb-cccccccccc`;
  let calls: string[];
  let jobs: Map<string, WarmJob>;
  let preloads: Known<CachePreload>;
  let status: ClusterStatus | undefined;
  let held: boolean;
  let known: boolean;
  let listed: () => void;
  let patched: { metadata: { finalizers?: string[] } }[];
  let ending: AbortController;
  let running: Promise<void>;

  const pool = {
    cluster: 'main',
    get status() {
      return status;
    },
    async call(name: string) {
      calls.push(name);
      if (name === 'listPins') {
        listed();
        return { pins: [{ owner: `preload/${uid}/aaaaaaaaaa`, node: 'n1', dataset: '', manifest: '', paths: [] }] };
      }
      return name === 'cancelWarmJob' ? WarmJob.fromPartial({ name: jobName, state: 'Cancelled' }) : { pins: 1 };
    },
    async *stream() {},
  };

  function start(sweepMs: number): void {
    const dataset = {
      metadata: { name: 'd', namespace: 'ns' },
      spec: { source: {} },
      status: { cluster: 'main' },
    };
    ending = new AbortController();
    running = runPreloadController(
      {
        api: {
          apply: async () => ({}) as never,
          patch: async (_type: unknown, _name: string, _namespace: string | undefined, patch: unknown) => {
            patched.push(patch as (typeof patched)[number]);
            return {} as never;
          },
        },
        agents: { get: () => (known ? pool : undefined), onChange: () => () => undefined } as unknown as Agents,
        preloads: preloads as never,
        datasets: new Known({ 'ns/d': dataset }) as never,
        clusters: new Known({ main: sampleCluster({}) }) as never,
        nodes: new Known() as never,
        podGroups: { of: () => undefined, holds: () => held, onChange: () => () => undefined },
        readiness: new ReadinessCache(),
        events: { eventFor: () => undefined },
        logger: silentLogger,
        sweepMs,
      },
      ending.signal,
    );
  }

  beforeEach(() => {
    calls = [];
    patched = [];
    known = true;
    held = false;
    listed = () => undefined;
    preloads = new Known();
    jobs = new Map([[jobName, WarmJob.fromPartial({ name: jobName, state: 'Running' })]]);
    status = { receivedAt: 0, connected: true, nodes: new Map(), datasets: new Map(), jobs, apiDifferences: [] };
  });
  afterEach(async () => {
    ending.abort();
    await running;
  });

  const preload = () => {
    const made = preloadObject({ placement: { nodeNames: ['n1'] } });
    return { ...made, metadata: { ...made.metadata, finalizers: [finalizerName] } };
  };

  it('ends jobs and pins of those that are gone', async () => {
    start(20);
    await until('they end', () => calls.includes('cancelWarmJob') && calls.includes('releasePins'));
  });

  it('takes nothing from one that is made while agents are asked what is left behind', async () => {
    const made = preload();
    jobs.clear();
    listed = () => preloads.put(objectKey(made), made);
    start(20);
    // Also when it has gone through all that there is.
    await until('it has looked twice', () => calls.filter((call) => call === 'listPins').length >= 2);
    assert.ok(!calls.includes('releasePins'), 'its pins were released');
  });

  it('lets one that is deleted go only when agents could be reached, though they are not known yet', async () => {
    const made = preload();
    const going = { ...made, metadata: { ...made.metadata, deletionTimestamp: '2026-05-01T12:00:00Z' } };
    preloads = new Known<CachePreload>({ [objectKey(going)]: going });
    known = false;
    start(600_000);
    await elapse(50, 'it would go');
    assert.deepEqual([calls, patched.length], [[], 0]);
    known = true;
    preloads.put(objectKey(going), { ...going, metadata: { ...going.metadata, generation: 2 } });
    await until('it goes', () => patched.length === 1);
    assert.deepEqual(calls, ['cancelWarmJob', 'releasePins']);
  });

  it('keeps one that is deleted until the pods that waited for it have started', async () => {
    const made = preloadObject({ placement: { gatedPods: {} as never } });
    const metadata = { ...made.metadata, finalizers: [finalizerName], deletionTimestamp: '2026-05-01T12:00:00Z' };
    const going = { ...made, metadata };
    preloads = new Known<CachePreload>({ [objectKey(going)]: going });
    held = true;
    start(600_000);
    await until('its pins are released', () => calls.filter((call) => call === 'releasePins').length >= 2);
    assert.equal(patched.length, 0);
    held = false;
    await until('it goes', () => patched.length === 1);
  });
});
