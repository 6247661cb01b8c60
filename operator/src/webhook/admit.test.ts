import assert from 'node:assert/strict';
import type { Pod } from '@hearth/common/kubernetes';
import type { PodDatasets } from '../gates/index.ts';
import { datasetOf, inline, ownedBy, podOf } from '../gates/testing/objects.ts';
import { admit } from './admit.ts';

const wait = datasetOf('llama', { mode: 'Wait' });
const plain = datasetOf('llama', undefined);
const found = (...datasets: PodDatasets['datasets']): PodDatasets => ({
  datasets,
  missing: [],
  foreign: false,
  former: [],
});
const absent: PodDatasets = {
  datasets: [],
  missing: [{ kind: 'PersistentVolumeClaim', key: 'team/later' }],
  foreign: false,
  former: [],
};
const make = (pod: Pod, facts: PodDatasets) => admit(pod, 'team', facts, 'random');
const gate = { name: 'hearth.storage/preload' };

describe('admission of a pod', () => {
  it('gates it when a Dataset says so, and names its plan', () => {
    const { result, patch, warnings } = make(podOf('web', [inline('llama')]), found(wait));
    assert.equal(result, 'gated');
    assert.deepEqual(warnings, []);
    assert.deepEqual(patch[0], { op: 'add', path: '/spec/schedulingGates', value: [gate] });
    assert.equal(patch[1]?.path, '/metadata/annotations');
    assert.match(JSON.stringify(patch[1]?.value), /^\{"hearth.storage\/preload":"web-[0-9a-f]{10}"\}$/);
    assert.equal(make(podOf('web', []), found(datasetOf('p', { mode: 'Prefer' }))).result, 'gated');
  });

  it('leaves gates and annotations of others where they are', () => {
    const pod = podOf('web', [inline('llama')], {
      metadata: { annotations: { a: 'b' } },
      spec: { schedulingGates: [{ name: 'example.com/quota' }] },
    });
    const { patch } = make(pod, found(wait));
    assert.deepEqual(
      patch.map(({ path }) => path),
      ['/spec/schedulingGates/-', '/metadata/annotations/hearth.storage~1preload'],
    );
    assert.deepEqual(patch[0]?.value, gate);
  });

  it('admits as they are pods without a gated Dataset', () => {
    for (const facts of [found(), found(plain), found(datasetOf('off', { mode: 'Off' }))]) {
      assert.deepEqual(make(podOf('web', [inline('llama')]), facts), { result: 'unchanged', patch: [], warnings: [] });
    }
  });

  const exempt: [string, Parameters<typeof podOf>[2]][] = [
    ['with a node', { spec: { nodeName: 'n1' } }],
    ['of a DaemonSet', { metadata: { ownerReferences: ownedBy('ds', 'DaemonSet') } }],
    ['of a node', { metadata: { ownerReferences: ownedBy('n1', 'Node') } }],
    ['that mirror a static one', { metadata: { annotations: { 'kubernetes.io/config.mirror': 'abc' } } }],
    ['that have our gate', { spec: { schedulingGates: [gate] } }],
  ];
  for (const [what, fields] of exempt) {
    it(`never gates pods ${what}`, () => {
      assert.deepEqual(make(podOf('web', [inline('llama')], fields), found(wait)).patch, []);
      assert.deepEqual(make(podOf('web', [inline('llama')], fields), absent).patch, []);
    });
  }

  it('gates provisionally while objects are not there, unless the pod says Off', () => {
    assert.equal(make(podOf('web', []), absent).result, 'provisional');
    assert.equal(make(podOf('web', []), { ...absent, datasets: [plain] }).result, 'provisional');
    assert.equal(make(podOf('web', []), { ...absent, datasets: [wait] }).result, 'gated');
    const off = podOf('web', [], { metadata: { annotations: { 'hearth.storage/gate': 'Off' } } });
    assert.equal(make(off, absent).result, 'unchanged');
    const odd = podOf('web', [], { metadata: { annotations: { 'hearth.storage/gate': 'Of' } } });
    const { result, warnings } = make(odd, absent);
    assert.equal(result, 'provisional');
    assert.match(warnings[0] ?? '', /is not Off, Prefer or Wait/);
  });

  it('reports who asks for a gate without a volume of a Dataset', () => {
    const pod = podOf('web', [], { metadata: { annotations: { 'hearth.storage/gate': 'Wait' } } });
    const { patch, warnings } = make(pod, found());
    assert.deepEqual(patch, []);
    assert.match(warnings[0] ?? '', /no volume of the pod is one of a Dataset/);
  });
});
