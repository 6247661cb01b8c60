import assert from 'node:assert/strict';
import {
  isStoreMoved,
  refusedStoreChange,
  type StoreChange,
  type StoredVolume,
  storeDataCondition,
} from './store_data.ts';
import { sampleCluster } from './testing/samples.ts';

const cluster = sampleCluster({}, { name: 'main' });
const kv: StoredVolume = {
  name: 'pvc-1',
  claim: 'team/kv',
  cluster: 'main',
  scratch: true,
  logNode: 'a',
  deleting: false,
};
const change = (fields: Partial<StoreChange> = {}): StoreChange => ({
  cluster,
  volumes: [kv],
  running: new Set(['b']),
  nodes: ['a', 'b'],
  memberLost: true,
  moved: false,
  ...fields,
});
const refused = (fields: Partial<StoreChange> = {}) => refusedStoreChange(change(fields));

describe('a store that has lost a member', () => {
  it('is not rebuilt while an agent is away that has the only copy of a volume', () => {
    assert.deepEqual(refused(), { kind: 'Rebuild', volumes: ['pvc-1 (claim team/kv, log on node a)'] });
    assert.equal(refused({ memberLost: false }), undefined);
    assert.equal(refused({ running: new Set(['a']) }), undefined, 'its agent writes the record again');
  });

  it('is not rebuilt while any agent is away when nobody recorded where the log of a volume is', () => {
    const volumes = [{ ...kv, logNode: '' }];
    assert.deepEqual(refused({ volumes })?.volumes, ['pvc-1 (claim team/kv)']);
    assert.equal(refused({ volumes, running: new Set(['a', 'b']) }), undefined);
  });

  it('is rebuilt for volumes of other clusters, of Datasets, and volumes that are being deleted', () => {
    const others = [
      { ...kv, cluster: 'other' },
      { ...kv, scratch: false },
      { ...kv, deleting: true },
    ];
    assert.equal(refused({ volumes: others }), undefined);
  });

  it('is rebuilt when a person says so', () => {
    const annotations = { 'hearth.storage/force-store-change': 'true' };
    assert.equal(refused({ cluster: sampleCluster({}, { name: 'main', annotations }) }), undefined);
  });
});

describe('another store in the spec', () => {
  const own = 'https://10.0.0.1:2379';
  const external = 'https://etcd.company:2379';
  const at = (former: string[], store: object = {}) => ({
    ...sampleCluster(store, { name: 'main' }),
    status: { store: { ready: true, endpoints: former } },
  });

  it('is refused while a volume exists, although all agents run', () => {
    const found = refused({ memberLost: false, moved: true, running: new Set(['a', 'b']) });
    assert.deepEqual(found, { kind: 'Move', volumes: ['pvc-1 (claim team/kv, log on node a)'] });
    assert.equal(refused({ memberLost: false, moved: true, volumes: [] }), undefined);
  });

  it('is one that shares no endpoint with the former', () => {
    const theirs = { store: { endpoints: [external] } };
    assert.ok(isStoreMoved(at([own], theirs), [external], true));
    assert.ok(isStoreMoved(at([external]), [own], false));
    assert.ok(!isStoreMoved(at([external, own], theirs), [external], false), 'a member went');
    assert.ok(!isStoreMoved(at([], theirs), [external], false), 'it is the first store');
    assert.ok(!isStoreMoved(at([external]), [], false), 'it has no address yet');
  });

  it('is not the own store whose Service got another address', () => {
    assert.ok(!isStoreMoved(at(['https://10.0.0.9:2379']), [own], true));
  });
});

describe('the condition StoreData', () => {
  it('names the volumes and both ways out', () => {
    const { status, reason, message } = storeDataCondition(refused(), cluster);
    assert.deepEqual([status, reason], ['False', 'RebuildRefused']);
    assert.match(
      message,
      /would be lost: pvc-1 \(claim team\/kv, log on node a\); bring the agents of those nodes back/,
    );
    assert.match(message, /kubectl annotate storagecluster main hearth\.storage\/force-store-change=true$/);
    assert.equal(storeDataCondition(refused({ moved: true }), cluster).reason, 'MoveRefused');
    assert.equal(storeDataCondition(undefined, cluster).status, 'True');
  });
});
