import assert from 'node:assert/strict';
import { group, input, node, pods, running, spreadOver } from './testing/inputs.ts';
import { only, places, warm } from './testing/plans.ts';

describe('affinity of a plan', () => {
  const few = { pods: 9, 'nvidia.com/gpu': 1 };

  it('is preferred to the nodes of the plan', () => {
    const nodes = [node('a', { labels: { 'kubernetes.io/hostname': 'host-a' } })];
    assert.deepEqual(warm(only(input(nodes, [group('g')]))).affinity, { kind: 'Preferred', hostnames: ['host-a'] });
  });

  it('required names all nodes that hold enough and could ever take a pod', () => {
    const nodes = [
      node('a', { resident: { model: 89 } }),
      node('b', { resident: { model: 90 } }),
      node('c', { resident: { model: 100 } }),
      node('full', { resident: { model: 100 } }),
      node('cordoned', { resident: { model: 100 }, unschedulable: true }),
      node('small', { resident: { model: 100 }, allocatable: { pods: 9 } }),
      node('planned'),
    ];
    const runs = [running('full', { requests: { 'nvidia.com/gpu': 8 } })];
    const given = group('g', { affinity: 'Required', minPercent: 90, planned: ['planned'] });
    assert.deepEqual(warm(only(input(nodes, [given], { running: runs }))).affinity, {
      kind: 'Required',
      hostnames: ['planned', 'b', 'c', 'full'],
      preferredHostnames: ['planned'],
    });
  });

  it('is not required of pods that use what is not modelled', () => {
    const given = group('g', { affinity: 'Required', unmodelled: ['resource claims', 'scheduler other'] });
    assert.deepEqual(warm(only(input([node('a')], [given]))).affinity, {
      kind: 'Preferred',
      hostnames: ['a'],
      reason: 'The pods use resource claims, scheduler other, whose places the plan does not know.',
    });
  });

  it('is not required when pods could run elsewhere only', () => {
    const nodes = [node('a', { allocatable: few }), node('b', { agent: false })];
    const given = group('g', { affinity: 'Required', pods: pods('g', 3) });
    const found = warm(only(input(nodes, [given])));
    assert.deepEqual(found.affinity, {
      kind: 'Preferred',
      hostnames: ['a'],
      reason: '2 of 3 pods fit only on nodes that cannot hold the bytes.',
    });
    assert.match(found.message, /^1 pod on 1 node: .* 2 more pods fit on no node that can hold the bytes now\.$/);
  });

  it('is not required when topology spread would then see too few domains', () => {
    const nodes = ['a', 'b', 'c'].map((name) => node(name, { labels: { zone: name } }));
    const selector = { matchLabels: { app: 'g' }, matchExpressions: [] };
    const spread = [spreadOver('zone', { selector, minDomains: 3 })];
    const runs = [running('b', { labels: { app: 'g' } }), running('c', { labels: { app: 'g' } })];
    const given = (honorAffinity: boolean) =>
      group('g', {
        affinity: 'Required',
        pods: pods('g', 2),
        spread: spread.map((one) => ({ ...one, honorAffinity })),
        requests: {},
      });
    const found = warm(only(input(nodes, [given(true)], { running: runs })));
    assert.deepEqual(places(found), ['a', 'a']);
    assert.deepEqual(found.affinity, {
      kind: 'Preferred',
      hostnames: ['a'],
      reason: 'With these nodes alone, topology spread would not let all pods run.',
    });
    assert.equal(warm(only(input(nodes, [given(false)], { running: runs }))).affinity.kind, 'Required');
  });

  it('is not required when topology spread will let some pods run only later', () => {
    const nodes = [node('a'), node('b'), node('c', { unschedulable: true })].map((one) => ({
      ...one,
      labels: { ...one.labels, zone: one.name },
    }));
    const selector = { matchLabels: { app: 'g' }, matchExpressions: [] };
    const spread = [spreadOver('zone', { selector })];
    const found = warm(only(input(nodes, [group('g', { affinity: 'Required', pods: pods('g', 4), spread })])));
    assert.deepEqual(places(found), ['a', 'b']);
    assert.deepEqual(found.affinity, {
      kind: 'Preferred',
      hostnames: ['a', 'b'],
      reason: 'Where topology spread will let 2 of 4 pods run is not known yet.',
    });
  });
});
