import assert from 'node:assert/strict';
import { HearthError } from '@hearth/common';
import { Capability } from '@hearth/common/generated/hearth/v1/control.ts';
import { type CoreEvent, kinds } from '@hearth/common/kubernetes';
import { MemoryApi } from '@hearth/common/kubernetes/testing';
import type { NodeCache } from '@hearth/common/resources';
import { nodeStatus } from '../agents/testing/fake_agent.ts';
import { reconcileKey } from '../reconciler/index.ts';
import { ReboundPods, type ReboundPodsOptions } from './rebound_pods.ts';

const signal = new AbortController().signal;

describe('pods whose mounts died', () => {
  let api: MemoryApi;
  let capability: Capability | undefined;
  let reconcile: (node: string, by: AbortSignal) => Promise<unknown>;
  /** As an operator that has just become the leader. */
  const newLeader = () => {
    const status = () => ({
      connected: true,
      nodes: new Map([['n1', nodeStatus('n1', { capabilities: capability === undefined ? [] : [capability] })]]),
    });
    const options = {
      api: Object.assign(api, { date: () => new Date() }),
      agents: { get: () => ({ status: status() }) },
      caches: { get: () => cache() },
      placeOf: () => ({ cluster: 'models' }),
      instance: 'pod-1',
    };
    reconcile = reconcileKey(new ReboundPods(options as unknown as ReboundPodsOptions), (node) => node);
  };
  const cache = () => [...api.objects.values()].find(({ kind }) => kind === 'NodeCache') as unknown as NodeCache;
  beforeEach(async () => {
    api = new MemoryApi();
    await api.apply(kinds.NodeCache, { metadata: { name: 'n1' } });
    newLeader();
  });
  const says = async (...names: string[]) => {
    capability = Capability.fromPartial({
      name: 'volumes',
      ready: names.length === 0,
      pods: names.map((one) => {
        const [name = '', reboundAt = '1'] = one.split(' ');
        return { namespace: 'team', name, uid: name === 'nobody' ? '' : `uid of ${name}`, reboundAt };
      }),
    });
    await reconcile('n1', signal);
  };
  const events = () => [...api.objects.values()].filter(({ kind }) => kind === 'Event') as CoreEvent[];
  const told = () => events().map(({ involvedObject }) => involvedObject.name);

  it('are reported by an event of theirs, for each time that it happened', async () => {
    await says();
    await says('a 1');
    await says('b 1', 'a 1');
    await says('a 2', 'b 1', 'a 1');
    assert.deepEqual(told(), ['a', 'b', 'a']);
    const { type, reason, message = '', metadata, involvedObject } = events()[0] as CoreEvent;
    assert.deepEqual([type, reason, metadata?.namespace], ['Warning', 'VolumeRebound', 'team']);
    assert.match(message, /Restart the pod, unless .* HostToContainer/);
    const whom = { apiVersion: 'v1', kind: 'Pod', namespace: 'team', name: 'a', uid: 'uid of a' };
    assert.deepEqual(involvedObject, whom);
    await says('b 1');
    assert.deepEqual(
      cache().status?.reboundPods?.map(({ name }) => name),
      ['b'],
    );
  });

  it('are not reported again by the next leader, though the API server has forgotten the event', async () => {
    await says('a 1');
    for (const [key, { kind }] of [...api.objects]) if (kind === 'Event') api.objects.delete(key);
    newLeader();
    await says('a 1');
    assert.deepEqual(told(), []);
  });

  it('are not reported again where the leader ended before it wrote down what it reported', async () => {
    const { patch } = api;
    api.patch = async () => {
      throw new HearthError('Unavailable', 'away');
    };
    await assert.rejects(says('a 1'));
    api.patch = patch;
    newLeader();
    await says('a 1');
    assert.deepEqual(told(), ['a']);
    assert.equal(cache().status?.reboundPods?.length, 1);
  });

  it('are not reported again when the agent was started again and has not looked yet', async () => {
    await says('a 1');
    capability = undefined;
    await reconcile('n1', signal);
    await says('a 1');
    assert.deepEqual(told(), ['a']);
    assert.equal(cache().status?.reboundPods?.length, 1);
  });

  for (const code of ['Unavailable', 'PermissionDenied', 'NotFound', 'InvalidArgument'] as const) {
    it(`are reported later when the API server refuses (${code}), and keep no other pod from it`, async () => {
      const { create } = api;
      api.create = (type, object, ...rest) =>
        object.metadata?.name?.startsWith('a.')
          ? Promise.reject(new HearthError(code, 'no'))
          : (create.call(api, type, object, ...rest) as never);
      await assert.rejects(says('a 1', 'b 1'), { code });
      assert.deepEqual(told(), ['b']);
      api.create = create;
      await says('a 1', 'b 1');
      assert.deepEqual(told(), ['b', 'a']);
    });
  }

  it('are not reported again when the agent had no room for them meanwhile', async () => {
    await says('a 1');
    capability = Capability.fromPartial({
      name: 'volumes',
      pods: [{ namespace: 'team', name: 'b', uid: 'uid of b', reboundAt: '2' }],
      podsLeftOut: 1,
    });
    await reconcile('n1', signal);
    for (const [key, { kind }] of [...api.objects]) if (kind === 'Event') api.objects.delete(key);
    await says('b 2', 'a 1');
    assert.deepEqual(told(), []);
  });

  it('are reported once though agents of the release before, which do not report when, and newer ones name them by turns', async () => {
    await says('a ');
    for (const [key, { kind }] of [...api.objects]) if (kind === 'Event') api.objects.delete(key);
    for (const name of ['a 1', 'a ', 'a 1']) await says(name);
    assert.deepEqual(told(), []);
    await says('a 2', 'a 1');
    assert.deepEqual(told(), ['a']);
  });

  it('are reported and remembered once though they are named twice', async () => {
    await says('a 1', 'a 1');
    assert.deepEqual([told(), cache().status?.reboundPods?.length], [['a'], 1]);
  });

  it('are no pods without an id', async () => {
    await says('nobody 1');
    assert.deepEqual(told(), []);
  });

  it('are planned once: reported and remembered, then nothing, and looked for again without a NodeCache', () => {
    const { plan, requeueAfterMs } = new ReboundPods({} as ReboundPodsOptions);
    const pod = { namespace: 'team', name: 'a', uid: 'u', reboundAt: '1' };
    const volumes = Capability.fromPartial({ name: 'volumes', pods: [pod] });
    const rebound = { namespace: 'team', name: 'a', uid: 'u', at: '1' };
    const empty = { metadata: { name: 'n1' } } as NodeCache;
    assert.deepEqual(plan('n1', { cache: empty, volumes }), [{ cache: empty, report: [rebound], remember: [rebound] }]);
    const remembered = { ...empty, status: { reboundPods: [rebound] } } as NodeCache;
    assert.deepEqual(plan('n1', { cache: remembered, volumes }), []);
    const none = Capability.fromPartial({ name: 'volumes' });
    assert.deepEqual(plan('n1', { cache: remembered, volumes: none }), [
      { cache: remembered, report: [], remember: [] },
    ]);
    assert.deepEqual(plan('n1', { cache: remembered, volumes: undefined }), []);
    assert.equal(requeueAfterMs('n1', { cache: undefined, volumes }), 5_000);
    assert.equal(requeueAfterMs('n1', { cache: undefined, volumes: none }), undefined);
  });
});
