import assert from 'node:assert/strict';
import { sampleCluster } from '../storage_cluster/testing/samples.ts';
import { daemonTerms, isAnchored, type NodeTerm, volumeTerms } from './anchors.ts';
import { expressionHolds } from './node_matching.ts';

const cacheDirectories = [{ path: '/var/cache/hearth' }];
const group = (name: string, fields: object = {}) => ({ name, cacheDirectories, ...fields });
const gpu = group('gpu', { nodeSelector: { pool: 'gpu' } });

type Labels = Record<string, string>;
const matches = (terms: readonly NodeTerm[], labels: Labels) => {
  const all: Labels = { 'kubernetes.io/os': 'linux', ...labels };
  return terms.some(({ matchExpressions }) =>
    matchExpressions.every(({ values = [], ...rest }) => expressionHolds({ ...rest, values }, all[rest.key])),
  );
};
const groupsOn = (labels: Labels, ...groups: object[]) => {
  const cluster = sampleCluster({ nodeGroups: groups });
  return cluster.spec.nodeGroups.filter((one) => matches(daemonTerms(cluster, one), labels)).map(({ name }) => name);
};

describe('pods and volumes on nodes that do not exist yet', () => {
  it('follow the selector of the group alone', () => {
    const cluster = sampleCluster({ nodeGroups: [gpu] });
    assert.deepEqual(groupsOn({ pool: 'gpu' }, gpu), ['gpu']);
    assert.deepEqual(groupsOn({ pool: 'cpu' }, gpu), []);
    assert.ok(matches(volumeTerms(cluster), { pool: 'gpu' }));
    assert.ok(!matches(volumeTerms(cluster), { pool: 'cpu' }));
    const keys = volumeTerms(cluster)[0]?.matchExpressions.filter(({ operator }) => operator === 'In');
    assert.deepEqual(keys, [
      { key: 'kubernetes.io/os', operator: 'In', values: ['linux'] },
      { key: 'pool', operator: 'In', values: ['gpu'] },
    ]);
  });

  it('belong to one group where labels tell groups apart', () => {
    const two = group('two', { nodeSelector: { pool: 'gpu', disk: 'fast' } });
    assert.deepEqual(groupsOn({ pool: 'gpu', disk: 'fast' }, two, gpu, group('rest')), ['two']);
    assert.deepEqual(groupsOn({ pool: 'gpu' }, two, gpu, group('rest')), ['gpu']);
    assert.deepEqual(groupsOn({ disk: 'fast' }, two, gpu, group('rest')), ['rest']);
    assert.deepEqual(groupsOn({}, group('all'), group('never')), ['all']);
    const apart = sampleCluster({ nodeGroups: [gpu, group('other', { nodeSelector: { pool: 'other' } })] });
    assert.ok(!JSON.stringify(volumeTerms(apart)).includes('"key":"pool","operator":"NotIn"'));
  });

  it('satisfy one of the terms of the affinity', () => {
    const nodeSelectorTerms = ['a', 'b'].map((zone) => ({
      matchExpressions: [{ key: 'zone', operator: 'In', values: [zone] }],
    }));
    const affinity = { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms } } };
    const zoned = group('zoned', { nodeSelector: { pool: 'gpu' }, affinity });
    assert.deepEqual(groupsOn({ pool: 'gpu', zone: 'b' }, zoned), ['zoned']);
    assert.deepEqual(groupsOn({ pool: 'gpu', zone: 'c' }, zoned), []);
  });

  it('leave out virtual nodes, and control planes unless the group has tolerations', () => {
    const controlPlane = { 'node-role.kubernetes.io/control-plane': '' };
    assert.deepEqual(groupsOn({ type: 'virtual-kubelet' }, group('all')), []);
    assert.deepEqual(groupsOn({ 'eks.amazonaws.com/compute-type': 'fargate' }, group('all')), []);
    assert.deepEqual(groupsOn(controlPlane, group('all')), []);
    assert.deepEqual(groupsOn(controlPlane, group('all', { tolerations: [{ operator: 'Exists' }] })), ['all']);
  });
});

describe('pods and volumes on nodes that the operator knows', () => {
  const label = 'agents.hearth.storage/models';

  it('are where its labels say, whatever the selector says', () => {
    assert.deepEqual(groupsOn({ [label]: 'gpu' }, gpu, group('rest')), ['gpu']);
    assert.deepEqual(groupsOn({ pool: 'gpu', [label]: 'rest' }, gpu, group('rest')), ['rest']);
    assert.deepEqual(groupsOn({ pool: 'gpu', [label]: 'None' }, gpu, group('rest')), []);
    const volumes = volumeTerms(sampleCluster({ nodeGroups: [gpu] }));
    assert.ok(matches(volumes, { 'cluster.csi.hearth.storage/models': 'true', [label]: 'gpu' }));
    assert.ok(!matches(volumes, { pool: 'gpu', [label]: 'gpu' }), 'a node that leaves');
    assert.ok(!matches(volumes, { pool: 'gpu', [label]: 'None' }));
    const others = { 'csi.hearth.storage/agent': 'true', 'agents.hearth.storage/others': 'all' };
    assert.deepEqual(groupsOn({ pool: 'gpu', ...others }, gpu), [], 'another StorageCluster has it');
  });

  it('would come to nodes that a group selects by labels', () => {
    const cluster = sampleCluster({ nodeGroups: [gpu] });
    const linux = { 'kubernetes.io/os': 'linux' };
    assert.ok(isAnchored(cluster, { ...linux, pool: 'gpu', [label]: 'None' }));
    assert.ok(!isAnchored(cluster, linux));
  });
});
