import assert from 'node:assert/strict';
import { plan } from './planner.ts';
import { group, input, node, pods, running, spreadOver } from './testing/inputs.ts';
import { names, only, places, warm } from './testing/plans.ts';

describe('planner, with a plan that there is', () => {
  it('is kept, though another node would be better now', () => {
    const nodes = [node('a', { resident: { model: 10 } }), node('b', { resident: { model: 100 } })];
    assert.deepEqual(names(warm(only(input(nodes, [group('g', { planned: ['a'] })])))), ['a']);
  });

  it('keeps nodes that fewer pods no longer need, and gets more for more pods', () => {
    const nodes = ['a', 'b', 'c'].map((name) => node(name, { allocatable: { pods: 9, 'nvidia.com/gpu': 1 } }));
    const fewer = warm(only(input(nodes, [group('g', { planned: ['c', 'b'] })])));
    assert.deepEqual(names(fewer), ['c', 'b']);
    const more = warm(only(input(nodes, [group('g', { planned: ['c', 'b'], pods: pods('g', 3) })])));
    assert.deepEqual(names(more), ['c', 'b', 'a']);
  });

  it('loses nodes that have gone, are full, cordoned, without agent or without room for the bytes', () => {
    const nodes = [
      node('full'),
      node('cordoned', { unschedulable: true }),
      node('silent', { agent: false }),
      node('small', { available: 1 }),
      node('other'),
    ];
    const runs = [running('full', { requests: { 'nvidia.com/gpu': 8 } })];
    const planned = ['gone', 'full', 'cordoned', 'silent', 'small'];
    assert.deepEqual(names(warm(only(input(nodes, [group('g', { planned })], { running: runs })))), ['other']);
  });

  it('is kept while no node takes a pod', () => {
    const nodes = [node('a', { resident: { model: 100 } }), node('b'), node('c')];
    const runs = nodes.map(({ name }) => running(name, { requests: { 'nvidia.com/gpu': 8 } }));
    const found = warm(only(input(nodes, [group('g', { planned: ['c', 'b'] })], { running: runs })));
    assert.deepEqual(names(found), ['c', 'b']);
  });

  it('goes before groups that have none', () => {
    const nodes = [node('a', { available: 120, allocatable: { pods: 9, 'nvidia.com/gpu': 1 } })];
    const plans = plan(input(nodes, [group('new'), group('old', { planned: ['a'] })]));
    assert.deepEqual([...plans.keys()], ['old', 'new']);
    assert.deepEqual(places(warm(plans.get('old'))), ['a']);
    assert.deepEqual(places(warm(plans.get('new'))), []);
  });

  it('keeps a node that pods can go to when those before them are there', () => {
    const nodes = ['a', 'b'].map((name) => node(name, { labels: { zone: name } }));
    const selector = { matchLabels: { app: 'g' }, matchExpressions: [] };
    const given = group('g', { planned: ['a'], spread: [spreadOver('zone', { selector })] });
    const runs = [running('a', { labels: { app: 'g' } })];
    const found = warm(only(input(nodes, [given], { running: runs })));
    assert.deepEqual([names(found), places(found)], [['a', 'b'], ['b']]);
  });
});
