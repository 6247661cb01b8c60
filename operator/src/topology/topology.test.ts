import assert from 'node:assert/strict';
import { HearthError, silentLogger } from '@hearth/common';
import type { ConfigMap, Pod } from '@hearth/common/kubernetes';
import { driverName, type StorageCluster } from '@hearth/common/resources';
import { MountingPods, type NodeFacts, placeNodes, podMounts } from '../kubernetes/index.ts';
import { reconcileKey } from '../reconciler/index.ts';
import { sampleCluster, sampleNode } from '../storage_cluster/testing/samples.ts';
import { NodeGroupsReconciler, nodeGroupsText } from './node_groups.ts';
import { labelChanges as changesIn, NodeLabelsReconciler, withoutTopologyLabels } from './node_labels_reconciler.ts';

const signal = new AbortController().signal;
const cacheDirectories = [{ path: '/var/cache/hearth' }];
const gpuGroup = { name: 'gpu', nodeSelector: { gpu: 'h200', hearth: 'yes' }, cacheDirectories };
const topology = { 'csi.hearth.storage/agent': 'true', 'cluster.csi.hearth.storage/models': 'true' };
const ofModels = { ...topology, 'agents.hearth.storage/models': 'gpu' };
type Changes = Parameters<typeof changesIn>;
const labelChanges = (labels: Changes[0], place: Changes[1], inUse: Changes[2]) => changesIn(labels, place, inUse, []);
const gone = (labels: object) => Object.fromEntries(Object.keys(labels).map((key) => [key, null]));

describe('labels of a node', () => {
  const models = { cluster: 'models', group: 'gpu' };

  it('are those of its StorageCluster and node group, and none when it has none', () => {
    assert.deepEqual(labelChanges({ gpu: 'h200' }, models, false), ofModels);
    assert.equal(labelChanges({ gpu: 'h200', ...ofModels }, models, false), undefined);
    assert.deepEqual(labelChanges({ ...ofModels, 'csi.hearth.storage/agent': 'no' }, models, false), {
      'csi.hearth.storage/agent': 'true',
    });
    assert.deepEqual(labelChanges({ gpu: 'h200', ...ofModels }, { cluster: 'other', group: 'all' }, false), {
      'agents.hearth.storage/models': null,
      'agents.hearth.storage/other': 'all',
      'cluster.csi.hearth.storage/models': null,
      'cluster.csi.hearth.storage/other': 'true',
    });
    assert.equal(labelChanges({ gpu: 'h200' }, undefined, false), undefined);
    assert.deepEqual(withoutTopologyLabels({ gpu: 'h200', ...ofModels }), { metadata: { labels: gone(ofModels) } });
    assert.equal(withoutTopologyLabels(undefined), undefined);
  });

  it('keep the agent while it is in use, without new volumes, and let no other agent come', () => {
    assert.deepEqual(labelChanges(ofModels, undefined, true), gone(topology));
    const kept = { 'agents.hearth.storage/models': 'gpu' };
    assert.equal(labelChanges(kept, undefined, true), undefined);
    assert.equal(labelChanges(kept, { cluster: 'other', group: 'all' }, true), undefined);
    assert.equal(labelChanges(ofModels, { cluster: 'models', group: 'rest' }, true), undefined, 'volumes go on');
    assert.deepEqual(labelChanges(ofModels, { cluster: 'models', group: 'rest' }, false), {
      'agents.hearth.storage/models': 'rest',
    });
  });

  it('keep out agents that were on the node, or would come by themselves', () => {
    const gpu = sampleCluster({ nodeGroups: [gpuGroup] });
    const all = sampleCluster({}, { name: 'all' });
    const changes = (labels: Record<string, string>, ...rest: [typeof models | undefined, boolean]) =>
      changesIn({ 'kubernetes.io/os': 'linux', ...labels }, ...rest, [gpu, all]);
    const selected = { gpu: 'h200', hearth: 'yes' };
    const without = { 'agents.hearth.storage/all': 'None' };
    assert.deepEqual(changes({}, undefined, false), without, 'as for a taint');
    assert.deepEqual(changes(selected, models, false), { ...without, ...ofModels });
    assert.equal(changes({ ...selected, ...without, ...ofModels }, models, false), undefined);
    const left = { ...gone(topology), 'agents.hearth.storage/models': 'None' };
    assert.deepEqual(
      changes({ ...without, ...ofModels }, undefined, false),
      left,
      'volumes may still name the selector',
    );
    const other = { cluster: 'all', group: 'all' };
    assert.deepEqual(changes({ ...selected, ...ofModels }, other, true), { ...gone(topology), ...without });
    assert.deepEqual(changesIn({ gpu: 'h200', ...without }, undefined, false, []), gone(without), 'it was deleted');
  });

  describe('follow the selection of the StorageCluster', () => {
    const selected = { gpu: 'h200', hearth: 'yes' };
    let cluster: StorageCluster | undefined;
    let node: NodeFacts;
    let mounting: MountingPods;
    let told: string[];
    let failure: HearthError | undefined;
    let moves: boolean;
    let reconcile: (key: string, by: AbortSignal) => Promise<{ requeueAfterMs?: number | undefined } | undefined>;
    beforeEach(() => {
      cluster = sampleCluster({ nodeGroups: [gpuGroup] });
      node = sampleNode('n1', { labels: { ...selected, ...ofModels } });
      mounting = new MountingPods();
      told = [];
      failure = undefined;
      moves = false;
      const reconciler = new NodeLabelsReconciler({
        api: {
          patch: async (...args) => {
            if (failure !== undefined) throw failure;
            patches.push(args[3]);
            return undefined as never;
          },
        },
        mounting,
        clusters: {
          get: (name) => (name === cluster?.metadata.name ? cluster : undefined),
          all: () => (cluster === undefined ? [] : [cluster]),
        },
        events: {
          eventFor: (_kind, _object, type, reason, message) => void told.push(`${type} ${reason} ${message}`),
        },
        logger: silentLogger,
        placeOf: (name) => placeNodes(cluster === undefined ? [] : [cluster], [node]).places.get(name),
        movesCopies: () => moves,
      });
      reconcile = reconcileKey(reconciler, () => node);
      patches.length = 0;
    });
    const patches: unknown[] = [];
    const pass = async () => {
      const result = await reconcile('n1', signal);
      return { patches: patches.splice(0), again: result?.requeueAfterMs };
    };
    const mounts = (volumeAttributes: object) =>
      podMounts({
        spec: {
          nodeName: 'n1',
          containers: [],
          volumes: [{ name: 'v', csi: { driver: driverName, volumeAttributes } }],
        },
      } as Pod);
    const reader = (name: string, attributes: object = { dataset: 'd' }) =>
      mounting.podChanged(`team/${name}`, undefined, mounts(attributes));
    const left = (labels: object = { gpu: 'h200' }) => {
      node = sampleNode('n1', { labels: { ...labels } });
    };

    it('when a node comes and goes', async () => {
      left(selected);
      assert.deepEqual(await pass(), { patches: [{ metadata: { labels: ofModels } }], again: undefined });
      left({ ...selected, ...ofModels });
      assert.deepEqual((await pass()).patches, []);
      left({ gpu: 'h200', ...ofModels });
      const labels = { ...gone(topology), 'agents.hearth.storage/models': 'None' };
      assert.deepEqual((await pass()).patches, [{ metadata: { labels } }]);
    });

    it('and keep the agent until no pod mounts a volume of the StorageCluster, and tell of it once', async () => {
      reader('reads');
      reader('elsewhere', { dataset: 'd', cluster: 'other' });
      left({ gpu: 'h200', ...ofModels });
      const { patches: first, again } = await pass();
      assert.deepEqual(first, [{ metadata: { labels: gone(topology) } }]);
      assert.equal(again, 10_000);
      assert.equal(told.length, 1);
      assert.match(
        told[0] ?? '',
        /^Warning NodeInUse Node n1 has left node group gpu, .*: team\/reads on n1; delete these pods.* kubectl label node n1 agents\.hearth\.storage\/models-$/,
      );
      left({ gpu: 'h200', 'agents.hearth.storage/models': 'gpu' });
      assert.deepEqual(await pass(), { patches: [], again: 10_000 });
      assert.equal(told.length, 1);
      mounting.podChanged('team/reads', mounts({}), undefined);
      assert.deepEqual(await pass(), {
        patches: [{ metadata: { labels: { 'agents.hearth.storage/models': 'None' } } }],
        again: undefined,
      });
    });

    it('and drain a node that may run no pods any longer: no new volumes, then readers and last copies, then the agent', async () => {
      cluster = sampleCluster({ nodeGroups: [{ ...gpuGroup, tolerations: [] }] });
      const taints = [{ key: 'maintenance', effect: 'NoExecute' }];
      node = sampleNode('n1', { labels: { ...selected, ...ofModels }, taints });
      moves = true;
      reader('reads');
      assert.deepEqual(await pass(), { patches: [{ metadata: { labels: gone(topology) } }], again: 10_000 });
      const agents = { 'agents.hearth.storage/models': 'gpu' };
      node = sampleNode('n1', { labels: { ...selected, ...agents }, taints });
      mounting.podChanged('team/reads', mounts({}), undefined);
      assert.deepEqual(await pass(), { patches: [], again: 10_000 }, 'copies move');
      moves = false;
      const labels = { 'agents.hearth.storage/models': 'None' };
      assert.deepEqual(await pass(), { patches: [{ metadata: { labels } }], again: undefined });
    });

    it('and keep nothing for a StorageCluster that has gone, and its agents while it goes', async () => {
      reader('reads');
      cluster = sampleCluster({ nodeGroups: [gpuGroup] }, { deletionTimestamp: '2026-01-02T00:00:00Z' });
      assert.deepEqual((await pass()).patches, [{ metadata: { labels: gone(topology) } }]);
      assert.deepEqual(told, [], 'its own condition and event name them');
      cluster = undefined;
      assert.deepEqual((await pass()).patches, [{ metadata: { labels: gone(ofModels) } }]);
    });

    it('unless the node has gone; after another failure they are wanted again', async () => {
      left(selected);
      failure = new HearthError('NotFound', 'no such node');
      await pass();
      failure = new HearthError('Unavailable', 'the API server is away');
      await assert.rejects(pass(), /is away/);
    });
  });
});

describe('node groups for csi-node', () => {
  const matchExpressions = [
    { key: 'zone', operator: 'In', values: ['a', 'b'] },
    { key: 'old', operator: 'DoesNotExist' },
  ];
  const nodeSelectorTerms = [{ matchExpressions }, { matchExpressions: [{ key: 'gpu', operator: 'Exists' }] }];
  const affinity = { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms } } };

  it('are the labels that groups select, without StorageClusters that are being deleted', () => {
    const clusters = [
      sampleCluster({ nodeGroups: [gpuGroup, { name: 'rest', cacheDirectories }] }),
      sampleCluster({}, { name: 'going', deletionTimestamp: '2026-01-02T00:00:00Z' }),
      sampleCluster(
        { nodeGroups: [{ name: 'all', cacheDirectories, affinity, tolerations: [{ key: 'gpu' }] }] },
        { name: 'all' },
      ),
    ];
    const text = nodeGroupsText(clusters);
    assert.deepEqual(JSON.parse(text), {
      all: [
        {
          name: 'all',
          selector: '',
          further:
            'label zone In (a, b) and old DoesNotExist, or gpu Exists and no taint but those that the group tolerates',
        },
      ],
      models: [
        { name: 'gpu', selector: 'gpu=h200,hearth=yes', further: '' },
        { name: 'rest', selector: '', further: '' },
      ],
    });
    assert.equal(nodeGroupsText(clusters.reverse()), text);
  });

  it('are written when they differ from what is there', async () => {
    const written: unknown[] = [];
    let present: ConfigMap | undefined;
    const reconciler = new NodeGroupsReconciler({
      api: { apply: async (_type, object) => written.push(object) as never },
      namespace: 'hearth-system',
      clusters: { all: () => [sampleCluster()] },
      configMaps: { get: (key) => (key === 'hearth-system/hearth-node-groups' ? present : undefined) },
    });
    const reconcile = reconcileKey(reconciler, (key) => key);
    await reconcile('', signal);
    present = written[0] as ConfigMap;
    assert.deepEqual(Object.keys(present.data ?? {}), ['node-groups.json']);
    await reconcile('', signal);
    assert.equal(written.length, 1);
    present = { ...present, data: { 'node-groups.json': 'changed by hand' } };
    await reconcile('', signal);
    assert.deepEqual(written[1], written[0]);
  });
});
