import assert from 'node:assert/strict';
import { groupWords, preloadName } from './group_name.ts';
import { ownedBy, podOf } from './testing/objects.ts';

const name = (pod: Parameters<typeof preloadName>[0], random = 'r') => preloadName(pod, 'team', random);
const owned = (index: number, spec = {}, owner = 'web-6c9f') =>
  podOf(`web-${index}`, [], { metadata: { ownerReferences: ownedBy(owner) }, spec });

describe('name of a plan', () => {
  it('is the same for the pods of a controller, and another for those of another', () => {
    assert.match(name(owned(1)), /^web-6c9f-[0-9a-f]{10}$/);
    assert.equal(name(owned(1), 'x'), name(owned(2), 'y'));
    assert.notEqual(name(owned(1)), name(owned(1, {}, 'web-777')));
  });

  it('distinguishes templates of one controller, not claims and host names of its pods', () => {
    assert.notEqual(name(owned(1)), name(owned(2, { nodeSelector: { gpu: 'yes' } })));
    const hosted = owned(2, {
      hostname: 'web-2',
      volumes: [{ name: 'a', persistentVolumeClaim: { claimName: 'a-2' } }],
    });
    assert.equal(name(owned(1)), name(hosted));
    const requests = (resources: object) => owned(1, { containers: [{ name: 'main', image: 'none', resources }] });
    assert.notEqual(name(requests({ requests: { cpu: '1' } })), name(requests({ requests: { cpu: '2' } })));
    assert.equal(
      name(requests({ requests: { cpu: '1', memory: '1Gi' } })),
      name(requests({ requests: { memory: '1Gi', cpu: '1' } })),
      'whatever the order of fields',
    );
  });

  it('distinguishes how pods wait, and stays what it was for those who say nothing of memory', () => {
    const said = (annotations: Record<string, string>) =>
      name(podOf('web-1', [], { metadata: { ownerReferences: ownedBy('web-6c9f'), annotations } }));
    assert.equal(said({}), name(owned(1)));
    assert.notEqual(said({ 'hearth.storage/gate-ready-when': 'Memory' }), name(owned(1)));
    assert.equal(name(owned(1)), 'web-6c9f-a767d35f53', 'as the release before names it');
  });

  it('is that of the group where a label names one, whoever owns the pods', () => {
    const labels = { 'hearth.storage/pod-group': 'Leader_and.workers' };
    const one = podOf('a', [], { metadata: { labels, ownerReferences: ownedBy('x') } });
    const other = podOf('b', [], { metadata: { labels }, spec: { nodeSelector: { a: 'b' } } });
    assert.match(name(one), /^leader-and-workers-[0-9a-f]{10}$/);
    assert.equal(name(one), name(other));
    assert.notEqual(name(one), preloadName(one, 'elsewhere', 'r'));
    assert.equal(groupWords(one), 'pod group Leader_and.workers');
  });

  it('is one of its own for a pod alone', () => {
    assert.notEqual(name(podOf('a', []), 'r1'), name(podOf('a', []), 'r2'));
    const { name: _, ...generated } = podOf('a', []).metadata ?? {};
    assert.match(name({ metadata: { ...generated, generateName: 'run-' } }), /^run-[0-9a-f]{10}$/);
    assert.match(name({ metadata: {} }), /^pod-[0-9a-f]{10}$/);
    assert.equal(groupWords(owned(1)), 'ReplicaSet/web-6c9f');
    assert.equal(groupWords(podOf('a', [])), 'Pod/a');
  });

  it('is a DNS label however long the words are', () => {
    for (const word of ['a'.repeat(253), `${'a'.repeat(51)}.b`, '9'.repeat(60), '...']) {
      const made = name(podOf('x', [], { metadata: { ownerReferences: ownedBy(word) } }));
      assert.match(made, /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/);
    }
  });
});
