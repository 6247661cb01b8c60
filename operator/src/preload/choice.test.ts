import assert from 'node:assert/strict';
import type { CachePreload } from '@hearth/common/resources';
import { chooseNodes } from './choice.ts';
import { now, observed, preloadObject, type Scene, size } from './testing/fixtures.ts';
import { wantedOf } from './wanted.ts';

function choose(preload: CachePreload, scene: Scene) {
  const seen = observed(scene);
  return chooseNodes(preload, seen, wantedOf(preload, seen));
}

const row = (name: string, phase: 'Ready' | 'Warming' = 'Warming') => ({
  name,
  phase,
  ...{ bytesTotal: size, bytesReady: 0, bytesVerified: 0, percent: 0, originBytes: 0, peerBytes: 0, message: '' },
});

describe('nodes of a CachePreload', () => {
  it('are those that hold most, then those with most room, then by name', () => {
    const nodes = { a: {}, b: { resident: 10 }, c: { budget: 20_000 }, d: {} };
    assert.deepEqual(choose(preloadObject({ placement: { replicas: 3 } }), { nodes }).nodes, ['b', 'c', 'a']);
  });

  it('stay those that were chosen, whatever others hold by now', () => {
    const preload = preloadObject({ placement: { replicas: 1 } }, { nodes: [row('b')] });
    const choice = choose(preload, { nodes: { a: { resident: size }, b: {} } });
    assert.deepEqual([choice.nodes, choice.replaced], [['b'], []]);
  });

  it('with fewer replicas are those that are ready', () => {
    const preload = preloadObject({ placement: { replicas: 1 } }, { nodes: [row('a'), row('b', 'Ready')] });
    assert.deepEqual(choose(preload, { nodes: { a: {}, b: {} } }).nodes, ['b']);
  });

  it('are waited for a while when their agent is away, and then replaced', () => {
    const preload = preloadObject({ placement: { replicas: 1 } }, { nodes: [row('a')] });
    const nodes = { a: { agent: false }, b: {} };
    const away = (ms: number) => choose(preload, { nodes, unavailableSince: new Map([['a', now - ms]]) });
    assert.deepEqual([away(19_000).nodes, away(19_000).replaced], [['a'], []]);
    assert.deepEqual([away(21_000).nodes, away(21_000).replaced], [['b'], ['a']]);
  });

  it('are replaced when they are not Ready though their agent serves', () => {
    const preload = preloadObject({ placement: { replicas: 1 } }, { nodes: [row('a')] });
    const seen = observed({ nodes: { a: {}, b: {} }, unavailableSince: new Map([['a', now - 21_000]]) });
    const nodes = seen.nodes.map((node) => ({ ...node, ready: node.name !== 'a' }));
    const choice = chooseNodes(preload, { ...seen, nodes }, wantedOf(preload, seen));
    assert.deepEqual([choice.nodes, choice.replaced], [['b'], ['a']]);
  });

  it('that do not qualify are named with their reasons', () => {
    const nodes = {
      a: { labels: { pool: 'gpu' } },
      b: { labels: { pool: 'gpu' }, agent: false },
      c: { labels: { pool: 'gpu' }, ready: false },
      d: { labels: { pool: 'gpu' }, budget: 400 },
      e: {},
    };
    const preload = preloadObject({ placement: { replicas: 4, nodeSelector: { pool: 'gpu' } } });
    const { nodes: chosen, trouble, lackingRoom } = choose(preload, { nodes });
    assert.deepEqual(chosen, ['a']);
    assert.equal(trouble?.reason, 'TooFewNodes');
    assert.equal(
      trouble?.message,
      'spec.placement.replicas asks for 4 nodes, and 1 of 5 qualify: b has no agent; c has an agent that does not serve: ; ' +
        'e does not have the labels of nodeSelector; the cache of d lacks 600 bytes',
    );
    assert.deepEqual([...lackingRoom], [['d', 600]]);
  });

  it('have room when what is pinned leaves it', () => {
    const placement = { replicas: 1 };
    const lacks = (shape: object, pinned: string[] = []) =>
      choose(preloadObject({ placement }), { nodes: { a: shape }, pinned }).lackingRoom.get('a') ?? 0;
    assert.equal(lacks({ budget: 1000 }), 0);
    assert.equal(lacks({ budget: 1000, pinned: 300 }), 300);
    // Bytes that this preload pinned are among the pinned bytes already.
    assert.equal(lacks({ budget: 1000, pinned: 300, resident: 300 }, ['a']), 0);
    assert.equal(lacks({ budget: 1000, pinned: 700, resident: 300 }, ['a']), 400);
    assert.equal(lacks({ budget: 1000, pinned: 1000, resident: size }), 0, 'all of it is there');
  });

  it('are all that have the labels', () => {
    const nodes = { b: { labels: { pool: 'gpu' } }, a: { labels: { pool: 'gpu' } }, c: {} };
    const placement = { allNodes: true as const, nodeSelector: { pool: 'gpu' } };
    assert.deepEqual(choose(preloadObject({ placement }), { nodes }).nodes, ['a', 'b']);
    const none = choose(preloadObject({ placement: { allNodes: true, nodeSelector: { no: 'such' } } }), { nodes });
    assert.equal(none.trouble?.reason, 'NoNodes');
  });

  it('of gated pods are those of the plan in the spec; before there was one, those of the status', () => {
    const placement = (nodes?: string[]) => ({ gatedPods: { gate: {}, group: 'Pod/x', nodes } }) as never;
    const status = { nodes: [row('a')] };
    assert.deepEqual(choose(preloadObject({ placement: placement(['b']) }, status), {}).nodes, ['b']);
    assert.deepEqual(choose(preloadObject({ placement: placement() }, status), {}).nodes, ['a']);
    const none = choose(preloadObject({ placement: placement([]) }, status), {});
    assert.deepEqual([none.nodes, none.trouble?.reason], [[], 'AwaitingPlan']);
    assert.equal(choose(preloadObject({ placement: placement() }), {}).trouble?.reason, 'AwaitingPlan');
  });
});
