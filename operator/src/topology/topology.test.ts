import assert from 'node:assert/strict';
import { HearthError, silentLogger } from '@hearth/common';
import type { ConfigMap } from '@hearth/common/kubernetes';
import { placeNodes } from '../kubernetes/index.ts';
import { reconcileKey } from '../reconciler/index.ts';
import { sampleCluster, sampleNode } from '../storage_cluster/testing/samples.ts';
import { NodeGroupsReconciler, nodeGroupsText } from './node_groups.ts';
import { labelChanges, withoutTopologyLabels } from './node_labels.ts';
import { NodeLabelsReconciler } from './topology_controller.ts';

const signal = new AbortController().signal;
const cacheDirectories = [{ path: '/var/cache/hearth' }];
const gpuGroup = { name: 'gpu', nodeSelector: { gpu: 'h200', hearth: 'yes' }, cacheDirectories };
const ofModels = { 'csi.hearth.storage/agent': 'true', 'cluster.csi.hearth.storage/models': 'true' };

describe('topology labels of a node', () => {
  it('are those of its StorageCluster, and none when it has none', () => {
    assert.deepEqual(labelChanges({ gpu: 'h200' }, 'models'), ofModels);
    assert.equal(labelChanges({ gpu: 'h200', ...ofModels }, 'models'), undefined);
    assert.deepEqual(labelChanges({ ...ofModels, 'csi.hearth.storage/agent': 'no' }, 'models'), {
      'csi.hearth.storage/agent': 'true',
    });
    assert.deepEqual(labelChanges({ gpu: 'h200', ...ofModels }, 'other'), {
      'cluster.csi.hearth.storage/models': null,
      'cluster.csi.hearth.storage/other': 'true',
    });
    assert.equal(labelChanges({ gpu: 'h200' }, undefined), undefined);
    const none = { 'csi.hearth.storage/agent': null, 'cluster.csi.hearth.storage/models': null };
    assert.deepEqual(withoutTopologyLabels({ gpu: 'h200', ...ofModels }), { metadata: { labels: none } });
    assert.equal(withoutTopologyLabels(undefined), undefined);
  });

  it('follow the selection of the StorageCluster', async () => {
    let cluster = sampleCluster({ nodeGroups: [gpuGroup] });
    let node = sampleNode('n1', { labels: { gpu: 'h200', hearth: 'yes' } });
    const patches: unknown[] = [];
    const reconciler = new NodeLabelsReconciler(
      {
        api: { apply: undefined as never, patch: async (...args) => patches.push(args[3]) as never },
        logger: silentLogger,
      },
      (name) => placeNodes([cluster], [node]).places.get(name),
    );
    const reconcile = reconcileKey(reconciler, () => node);
    await reconcile('n1', signal);
    assert.deepEqual(patches.splice(0), [{ metadata: { labels: ofModels } }]);
    node = sampleNode('n1', { labels: { gpu: 'h200', hearth: 'yes', ...ofModels } });
    await reconcile('n1', signal);
    assert.deepEqual(patches.splice(0), []);
    const none = { 'csi.hearth.storage/agent': null, 'cluster.csi.hearth.storage/models': null };
    node = sampleNode('n1', { labels: { gpu: 'h200', ...ofModels } });
    await reconcile('n1', signal);
    assert.deepEqual(patches.splice(0), [{ metadata: { labels: none } }]);
    node = sampleNode('n1', { labels: { gpu: 'h200', hearth: 'yes', ...ofModels } });
    cluster = sampleCluster({ nodeGroups: [gpuGroup] }, { deletionTimestamp: '2026-01-02T00:00:00Z' });
    await reconcile('n1', signal);
    assert.deepEqual(patches.splice(0), [{ metadata: { labels: none } }]);
  });

  it('are of no account for a node that has gone, and wanted again after a failure', async () => {
    let failure = new HearthError('NotFound', 'no such node');
    const patch = async () => {
      throw failure;
    };
    const reconciler = new NodeLabelsReconciler(
      { api: { apply: undefined as never, patch }, logger: silentLogger },
      () => ({ cluster: 'models', group: 'all' }),
    );
    const reconcile = reconcileKey(reconciler, () => sampleNode('n1'));
    await reconcile('n1', signal);
    failure = new HearthError('Unavailable', 'the API server is away');
    await assert.rejects(reconcile('n1', signal), /is away/);
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
