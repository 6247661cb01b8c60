import assert from 'node:assert/strict';
import { type DaemonSet, kinds } from '@hearth/common/kubernetes';
import { specHashAnnotation } from '@hearth/common/resources';
import { type DesiredObject, desired } from './objects/index.ts';
import type { Observation } from './observation.ts';
import { type Action, contains, isCurrent, keyOf, plan } from './plan.ts';
import { environment, sampleCluster } from './testing/samples.ts';

const objects = desired({
  cluster: sampleCluster(),
  environment,
  store: 'etcd://h:1/c',
  members: [],
  startHash: '',
});
const asOwned = (list: readonly DesiredObject[]) => list.map(({ type, object }) => ({ type, object }));
const observation = (fields: Partial<Observation> = {}): Observation =>
  ({
    certificates: { write: [] },
    secretVersions: {},
    desired: objects,
    owned: asOwned(objects),
    configurations: new Set(),
    foreign: [],
    missing: [],
    unlabelled: false,
    labelledGroups: new Set(),
    store: { endpoints: [], ready: true, trouble: undefined, memberLost: false },
    agents: { running: 0, trouble: undefined },
    ...fields,
  }) as unknown as Observation;
const describeActions = (actions: Action[]) => actions.map(describeAction);

function describeAction(action: Action): string {
  switch (action.kind) {
    case 'apply':
      return `apply ${keyOf(action.desired.type, action.desired.object)}`;
    case 'delete':
      return `delete ${action.type.kind} ${action.name}`;
    case 'secret':
      return `secret ${action.secret.role}`;
    case 'rebuildStore':
      return `rebuild ${action.set.metadata?.name}`;
  }
}

describe('plan of a StorageCluster', () => {
  it('is empty when everything is as it should be', () => assert.deepEqual(plan(observation()), []));

  it('makes everything, what others wait for first', () => {
    const write = [{ role: 'ca' }, { role: 'agent' }] as Observation['certificates']['write'];
    const certificates = { write } as Observation['certificates'];
    const actions = describeActions(plan(observation({ owned: [], certificates })));
    assert.deepEqual(actions.slice(0, 3), ['secret ca', 'secret agent', 'apply Service hearth-models-etcd']);
    assert.equal(actions.at(-1), 'apply DaemonSet hearth-models-all-agent');
  });

  it('carries the version of a Secret that was read, so that an old copy is refused', () => {
    const certificates = { write: [{ role: 'agent' }] } as Observation['certificates'];
    const [action] = plan(observation({ certificates, secretVersions: { agent: '7' } }));
    assert.equal(action?.kind === 'secret' && action.resourceVersion, '7');
  });

  const old = {
    type: kinds.ConfigMap,
    object: { metadata: { name: 'old', uid: 'u' } },
  } as Observation['owned'][number];
  it('removes what is no longer wanted, but not before the store has an address', () => {
    const owned = [...asOwned(objects), old];
    assert.deepEqual(describeActions(plan(observation({ owned }))), ['delete ConfigMap old']);
    assert.deepEqual(describeActions(plan(observation({ owned, store: undefined }))), []);
  });

  describe('and the configurations of its agents', () => {
    const names = (origins: object) => {
      const cluster = sampleCluster({ origins: { ...sampleCluster().spec.origins, ...origins } });
      const list = desired({
        cluster,
        environment,
        store: 'etcd://h:1/c',
        members: [],
        startHash: '',
      });
      return { list, name: list.find(({ type }) => type.kind === 'ConfigMap')?.object.metadata?.name ?? '' };
    };
    const [now, later] = [names({}), names({ maxEntries: 7 })];
    /** `generation` and `seen` of the DaemonSet that names `of`. */
    const ownedBy = (of: typeof now, generation: number, seen: number) =>
      asOwned([...of.list.filter(({ type }) => type.kind !== 'ConfigMap'), ...now.list, ...later.list])
        .filter(
          ({ type, object }, index, all) =>
            all.findIndex((one) => keyOf(one.type, one.object) === keyOf(type, object)) === index,
        )
        .map(({ type, object }) => {
          if (type.kind !== 'DaemonSet') return { type, object };
          const metadata = { ...object.metadata, generation };
          return { type, object: { ...object, metadata, status: { observedGeneration: seen } } };
        }) as Observation['owned'];
    const deleted = (fields: Partial<Observation>) =>
      describeActions(plan(observation({ desired: later.list, ...fields }))).filter((one) => one.startsWith('delete'));

    it('have another name for another content', () => {
      assert.match(now.name, /^hearth-models-all-[0-9a-f]{10}$/);
      assert.notEqual(now.name, later.name);
      assert.equal(names({}).name, now.name);
    });

    it('stay while a pod reads them, a DaemonSet names them, or its controller has not seen that it does not', () => {
      assert.deepEqual(deleted({ owned: ownedBy(now, 1, 1) }), [], 'the DaemonSet is about to be changed');
      assert.deepEqual(deleted({ owned: ownedBy(later, 2, 1) }), [], 'not seen');
      const configurations = new Set([now.name, later.name]);
      assert.deepEqual(deleted({ owned: ownedBy(later, 2, 2), configurations }), [], 'a pod of the release before');
      assert.deepEqual(deleted({ owned: ownedBy(later, 2, 2) }), [`delete ConfigMap ${now.name}`]);
      assert.deepEqual(
        deleted({ desired: now.list, owned: ownedBy(now, 3, 3), configurations: new Set([later.name]) }),
        [],
        'on the way back',
      );
    });
  });

  const sets = (list: readonly DesiredObject[], change: (set: DaemonSet) => void) =>
    asOwned(list).map(({ type, object }) => {
      const copy = structuredClone(object);
      if (type.kind === 'DaemonSet') change(copy as DaemonSet);
      return { type, object: copy };
    }) as Observation['owned'];

  it('places agents by the label of their nodes only when all nodes have it, so that none ends under its readers', () => {
    const owned = sets(objects, (set) => {
      Object.assign(set.metadata ?? {}, { annotations: { [specHashAnnotation]: 'of the release before' } });
      Object.assign(set.spec?.template.spec ?? {}, {
        nodeSelector: { 'kubernetes.io/os': 'linux' },
        affinity: undefined,
      });
    });
    assert.deepEqual(plan(observation({ owned, unlabelled: true })), []);
    const names = ['holder', 'agent'].map((name) => `apply DaemonSet hearth-models-all-${name}`);
    assert.deepEqual(describeActions(plan(observation({ owned }))), names);
    const placed = sets(objects, (set) => {
      Object.assign(set.metadata ?? {}, { annotations: { [specHashAnnotation]: 'of other settings' } });
    });
    assert.deepEqual(
      describeActions(plan(observation({ owned: placed, unlabelled: true }))),
      names,
      'a node that has just come delays nothing',
    );
  });

  it('removes the agents of a group that has gone from the spec when no node has its label', () => {
    const wanted = objects.filter(({ type }) => type.kind !== 'DaemonSet');
    const keeping = observation({ desired: wanted, labelledGroups: new Set(['all']) });
    assert.deepEqual(plan(keeping), []);
    assert.deepEqual(
      describeActions(plan(observation({ desired: wanted }))).sort(),
      ['agent', 'holder'].map((name) => `delete DaemonSet hearth-models-all-${name}`),
    );
  });

  it('leaves alone what belongs to another StorageCluster', () => {
    const foreign = objects
      .filter(({ type }) => type.kind === 'ConfigMap')
      .map(({ type, object }) => keyOf(type, object));
    const owned = asOwned(objects).filter(({ type, object }) => !foreign.includes(keyOf(type, object)));
    assert.deepEqual(plan(observation({ owned, foreign })), []);
  });

  it('begins the store again when a member has lost its data, once, and makes it again when it has gone', () => {
    const store = { endpoints: [], ready: true, trouble: undefined, memberLost: true };
    assert.deepEqual(describeActions(plan(observation({ store }))), ['rebuild hearth-models-etcd']);
    const owned = asOwned(objects).map(({ type, object }) => {
      if (type.kind !== 'StatefulSet') return { type, object };
      return {
        type,
        object: { ...object, metadata: { ...object.metadata, deletionTimestamp: '2026-01-01T00:00:00Z' } },
      };
    });
    assert.deepEqual(plan(observation({ store, owned: owned as Observation['owned'] })), []);
    const gone = asOwned(objects).filter(({ type }) => type.kind !== 'StatefulSet');
    assert.deepEqual(describeActions(plan(observation({ store, owned: gone }))), [
      'apply StatefulSet hearth-models-etcd',
    ]);
  });
});

describe('plan of a StorageCluster whose store may not change', () => {
  const store = { endpoints: [], ready: true, trouble: undefined, memberLost: true };
  const volumes = ['pvc-1 (claim team/kv, log on node a)'];

  it('keeps the members that are left, and everything else goes on', () => {
    const refused = { kind: 'Rebuild', volumes } as const;
    assert.deepEqual(plan(observation({ store, refused })), []);
    const owned = asOwned(objects).filter(({ type }) => type.kind !== 'ConfigMap');
    const [action] = plan(observation({ store, refused, owned }));
    assert.equal(action?.kind === 'apply' && action.desired.type.kind, 'ConfigMap');
  });

  it('leaves agents at the store that they have, and renews certificates', () => {
    const write = [{ role: 'agent' }] as Observation['certificates']['write'];
    const certificates = { write } as Observation['certificates'];
    const refused = { kind: 'Move', volumes } as const;
    assert.deepEqual(describeActions(plan(observation({ owned: [], certificates, refused }))), ['secret agent']);
  });
});

describe('drift', () => {
  const cases: [what: string, whole: unknown, part: unknown, contained: boolean][] = [
    ['defaults of the server', { a: 1, added: true }, { a: 1 }, true],
    ['a changed value', { a: 2 }, { a: 1 }, false],
    ['a removed value', {}, { a: 1 }, false],
    ['an empty map that the server leaves out', {}, { a: {} }, true],
    ['an emptyDir', { emptyDir: {} }, { emptyDir: {} }, true],
    ['items of others beside ours', { c: [{ name: 'x' }, { name: 'y', v: 1 }] }, { c: [{ name: 'y', v: 1 }] }, true],
    ['a changed item', { c: [{ name: 'y', v: 2 }] }, { c: [{ name: 'y', v: 1 }] }, false],
    [
      'mounts of one volume',
      [
        { name: 'a', mountPath: '/1' },
        { name: 'a', mountPath: '/2' },
      ],
      [{ name: 'a', mountPath: '/2' }],
      true,
    ],
    ['arguments in another order', ['b', 'a'], ['a', 'b'], false],
    ['one argument more', ['a', 'b'], ['a'], false],
    ['quantities in the words of the server', { cpu: '500m', m: '1Gi' }, { cpu: '0.5', m: '1024Mi' }, true],
    ['other quantities', { cpu: '500m' }, { cpu: '0.6' }, false],
    ['false', { a: true }, { a: false }, false],
  ];
  for (const [what, whole, part, contained] of cases) {
    it(`${contained ? 'does not see' : 'sees'} ${what}`, () => assert.equal(contains(whole, part), contained));
  }

  it('sees fields that are no longer wanted by the hash, and objects that are going', () => {
    const object = (hash: string, more = {}) => ({
      metadata: { name: 'x', annotations: { [specHashAnnotation]: hash }, ...more },
    });
    assert.ok(isCurrent(object('1'), object('1')));
    assert.ok(!isCurrent(object('2'), object('1')));
    assert.ok(!isCurrent(object('1'), undefined));
    assert.ok(!isCurrent(object('1'), object('1', { deletionTimestamp: '2026-01-01T00:00:00Z' })));
  });
});
