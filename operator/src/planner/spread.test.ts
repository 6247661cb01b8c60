import assert from 'node:assert/strict';
import type { PlannedNode, PodGroup, RunningPod } from './input.ts';
import { plan } from './planner.ts';
import { group, input, node, pods, running, spreadOver } from './testing/inputs.ts';

const selector = { matchLabels: { app: 'g' }, matchExpressions: [] };
const zoned = (...zones: string[]) => zones.map((zone, index) => node(`n${index}`, { labels: { zone } }));
const matching = (on: string, options: Partial<RunningPod> = {}) => running(on, { labels: { app: 'g' }, ...options });

/** Nodes of the pods of a group, in their order; fewer when others fit nowhere. */
function places(nodes: readonly PlannedNode[], options: Partial<PodGroup>, runs: readonly RunningPod[] = []): string[] {
  const found = plan(input(nodes, [group('g', { requests: {}, ...options })], { running: runs })).get('g');
  return found?.kind === 'warm' ? [...found.assignment.values()] : [];
}

describe('topology spread', () => {
  it('keeps the difference between domains within maxSkew', () => {
    const nodes = zoned('a', 'a', 'b');
    const spread = [spreadOver('zone', { selector })];
    const zones = places(nodes, { pods: pods('g', 4), spread }).map((name) => (name === 'n2' ? 'b' : 'a'));
    assert.deepEqual(zones, ['a', 'b', 'a', 'b']);
    const wide = [spreadOver('zone', { selector, maxSkew: 3 })];
    assert.deepEqual(places(nodes, { pods: pods('g', 4), spread: wide }), ['n0', 'n0', 'n0', 'n2']);
  });

  it('counts matching pods of its namespace that are not on their way out', () => {
    const nodes = zoned('a', 'b');
    const spread = [spreadOver('zone', { selector })];
    assert.deepEqual(places(nodes, { spread }, [matching('n0')]), ['n1']);
    for (const other of [{ namespace: 'other' }, { labels: { app: 'h' } }, { deleting: true }]) {
      assert.deepEqual(places(nodes, { spread }, [matching('n0', other)]), ['n0']);
    }
  });

  it('counts what was planned before', () => {
    const nodes = zoned('a', 'b');
    const spread = [spreadOver('zone', { selector })];
    const given = input(nodes, [
      group('f', { requests: {}, labels: { app: 'g' } }),
      group('g', { requests: {}, spread }),
    ]);
    const found = plan(given).get('g');
    assert.deepEqual(found?.kind === 'warm' && [...found.assignment.values()], ['n1']);
  });

  it('takes domains that are missing as empty until there are minDomains', () => {
    const nodes = zoned('a', 'b');
    const few = [spreadOver('zone', { selector, minDomains: 3 })];
    assert.deepEqual(places(nodes, { pods: pods('g', 3), spread: few }), ['n0', 'n1']);
    const enough = [spreadOver('zone', { selector, minDomains: 2 })];
    assert.equal(places(nodes, { pods: pods('g', 3), spread: enough }).length, 3);
  });

  it('leaves out nodes that affinity excludes, unless it is set to ignore that', () => {
    const [a, b] = zoned('a', 'b') as [PlannedNode, PlannedNode];
    const nodes = [{ ...a, labels: { ...a.labels, disk: 'ssd' } }, b];
    const options = (honorAffinity: boolean) => ({
      pods: pods('g', 3),
      nodeSelector: { disk: 'ssd' },
      spread: [spreadOver('zone', { selector, honorAffinity })],
    });
    assert.equal(places(nodes, options(true)).length, 3);
    assert.equal(places(nodes, options(false)).length, 1);
  });

  it('counts nodes with taints, unless it is set to honor them', () => {
    const [a, b] = zoned('a', 'b') as [PlannedNode, PlannedNode];
    const nodes = [a, { ...b, taints: [{ key: 'x', effect: 'NoSchedule' }] }];
    const options = (honorTaints: boolean) => ({
      pods: pods('g', 3),
      spread: [spreadOver('zone', { selector, honorTaints })],
    });
    assert.equal(places(nodes, options(true)).length, 3);
    assert.equal(places(nodes, options(false)).length, 1);
  });

  it('leaves out nodes without the labels of all constraints', () => {
    const nodes = [node('n0', { labels: { zone: 'a', rack: '1' } }), node('n1', { labels: { zone: 'b' } })];
    const spread = [spreadOver('zone', { selector }), spreadOver('rack', { selector })];
    assert.deepEqual(places(nodes, { pods: pods('g', 2), spread }), ['n0', 'n0']);
  });

  it('distinguishes revisions by matchLabelKeys', () => {
    const nodes = zoned('a', 'b');
    const old = matching('n0', { labels: { app: 'g', hash: '1' } });
    const options = {
      labels: { app: 'g', hash: '2' },
      spread: [spreadOver('zone', { selector, matchLabelKeys: ['hash'] })],
    };
    assert.deepEqual(places(nodes, options, [old]), ['n0']);
    assert.deepEqual(places(nodes, { ...options, labels: { app: 'g', hash: '1' } }, [old]), ['n1']);
  });

  it('spreads nothing by a selector that is absent or asks for nothing', () => {
    const nodes = zoned('a', 'b');
    for (const one of [undefined, { matchLabels: {}, matchExpressions: [] }]) {
      const spread = [spreadOver('zone', { selector: one })];
      assert.deepEqual(places(nodes, { pods: pods('g', 3), spread }), ['n0', 'n0', 'n0']);
    }
  });

  it('pods that do not match themselves may all go where there is room', () => {
    const nodes = zoned('a', 'b');
    const spread = [spreadOver('zone', { selector: { matchLabels: { app: 'other' }, matchExpressions: [] } })];
    assert.deepEqual(places(nodes, { pods: pods('g', 3), spread }), ['n0', 'n0', 'n0']);
  });
});
