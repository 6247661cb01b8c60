import assert from 'node:assert/strict';
import { sampleCluster, sampleNode } from '../storage_cluster/testing/samples.ts';
import type { NodeFacts } from './node_facts.ts';
import { placeNodes } from './placement.ts';

const cacheDirectories = [{ path: '/var/cache/hearth' }];
const group = (name: string, nodeSelector = {}) => ({ name, nodeSelector, cacheDirectories });
const cluster = (name: string, created: string, ...nodeGroups: object[]) =>
  sampleCluster({ nodeGroups }, { name, creationTimestamp: created });
const places = (clusters: Parameters<typeof placeNodes>[0], nodes: NodeFacts[]) =>
  Object.fromEntries(
    [...placeNodes(clusters, nodes).places].map(([node, place]) => [node, `${place.cluster}/${place.group}`]),
  );

describe('placement of nodes', () => {
  const nodes = [
    sampleNode('n1', { labels: { gpu: 'a' } }),
    sampleNode('n2', { labels: { gpu: 'b' } }),
    sampleNode('n3'),
  ];

  it('gives each node to the first group that selects it', () => {
    const one = cluster('c', '2026-01-01T00:00:00Z', group('a', { gpu: 'a' }), group('rest'));
    assert.deepEqual(places([one], nodes), { n1: 'c/a', n2: 'c/rest', n3: 'c/rest' });
    assert.deepEqual(placeNodes([one], nodes).conflicts.get('c'), [
      { node: 'n1', group: 'rest', takenBy: { cluster: 'c', group: 'a' } },
    ]);
  });

  it('gives nodes of two clusters to the older one, whichever is listed first', () => {
    const older = cluster('z', '2026-01-01T00:00:00Z', group('a', { gpu: 'a' }));
    const younger = cluster('y', '2026-01-02T00:00:00Z', group('all'));
    assert.deepEqual(places([younger, older], nodes), { n1: 'z/a', n2: 'y/all', n3: 'y/all' });
    const { conflicts } = placeNodes([younger, older], nodes);
    assert.deepEqual([...conflicts.keys()], ['y']);
    assert.equal(conflicts.get('y')?.[0]?.takenBy.cluster, 'z');
  });

  it('decides between clusters of one second by their names', () => {
    const [a, b] = ['a', 'b'].map((name) => cluster(name, '2026-01-01T00:00:00Z', group('all')));
    assert.ok(a && b);
    assert.deepEqual(places([b, a], [sampleNode('n')]), { n: 'a/all' });
  });

  it('frees the nodes of a cluster that is being deleted, and takes none without Linux', () => {
    const going = sampleCluster({}, { name: 'a', deletionTimestamp: '2026-01-03T00:00:00Z' });
    const other = sampleCluster({}, { name: 'b' });
    const windows = sampleNode('w', { labels: { 'kubernetes.io/os': 'windows' } });
    assert.deepEqual(places([going, other], [sampleNode('n'), windows]), { n: 'b/all' });
  });

  const taint = (key: string, effect = 'NoSchedule', value?: string) => ({ key, value, effect });
  const placed = (fields: Partial<NodeFacts>, groupFields: object = {}) => {
    const one = cluster('c', '2026-01-01T00:00:00Z', { ...group('all'), ...groupFields });
    return placeNodes([one], [sampleNode('n', fields)]).places.has('n') ? 'yes' : 'no';
  };

  it('leaves out control planes and virtual nodes, and no other node for its taints', () => {
    assert.equal(placed({ taints: [taint('nvidia.com/gpu'), taint('dedicated', 'NoExecute', 'ml')] }), 'yes');
    assert.equal(placed({ labels: { 'node-role.kubernetes.io/control-plane': '' } }), 'yes', 'of a single node');
    assert.equal(placed({ taints: [taint('node-role.kubernetes.io/control-plane')] }), 'no');
    assert.equal(placed({ taints: [taint('virtual-kubelet.io/provider')] }), 'no');
    assert.equal(placed({ labels: { type: 'virtual-kubelet' } }), 'no');
    assert.equal(placed({ labels: { 'eks.amazonaws.com/compute-type': 'fargate' } }), 'no');
  });

  it('takes nodes of which a group tolerates all taints', () => {
    const tolerations = [
      { key: 'node-role.kubernetes.io/control-plane', operator: 'Exists' },
      { key: 'gpu', value: 'a' },
    ];
    const node = (...taints: NodeFacts['taints']) => placed({ taints }, { tolerations });
    assert.equal(node(taint('node-role.kubernetes.io/control-plane')), 'yes');
    assert.equal(node(taint('gpu', 'NoExecute', 'a')), 'yes');
    assert.equal(node(taint('gpu', 'NoSchedule', 'b')), 'no');
    assert.equal(node(taint('dedicated')), 'no');
    for (const key of [
      'hearth.storage/agent-not-ready',
      'ToBeDeletedByClusterAutoscaler',
      'node.kubernetes.io/not-ready',
    ]) {
      assert.equal(node(taint(key)), 'yes', key);
    }
  });

  it('keeps a node whose agent runs when a taint comes, and has it drain when pods may not stay', () => {
    const place = (labels: Record<string, string>, effect: string, fields: object = {}) => {
      const one = cluster('c', '2026-01-01T00:00:00Z', { ...group('all'), tolerations: [], ...fields });
      const node = sampleNode('n', { labels, taints: [taint('maintenance', effect)] });
      return placeNodes([one], [node]).places.get('n');
    };
    const runs = { 'agents.hearth.storage/c': 'all' };
    assert.equal(place({}, 'NoSchedule'), undefined);
    assert.deepEqual(place(runs, 'NoSchedule'), { cluster: 'c', group: 'all' });
    assert.deepEqual(place(runs, 'NoExecute'), { cluster: 'c', group: 'all', draining: true });
    assert.deepEqual(place(runs, 'NoExecute', { tolerations: undefined }), { cluster: 'c', group: 'all' });
    assert.equal(place({ 'agents.hearth.storage/c': 'other' }, 'NoSchedule'), undefined);
  });

  it('takes nodes whose labels satisfy one of the terms of a group', () => {
    const inZone = { matchExpressions: [{ key: 'zone', operator: 'In', values: ['a', 'b'] }] };
    const large = {
      matchExpressions: [
        { key: 'disks', operator: 'Gt', values: ['3'] },
        { key: 'slow', operator: 'DoesNotExist' },
      ],
    };
    const nodeSelectorTerms = [inZone, large];
    const affinity = { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms } } };
    const node = (labels: Record<string, string>) => placed({ labels }, { affinity });
    assert.equal(node({ zone: 'b' }), 'yes');
    assert.equal(node({ zone: 'c', disks: '4' }), 'yes');
    assert.equal(node({ disks: '4', slow: '' }), 'no');
    assert.equal(node({}), 'no');
  });
});
