import assert from 'node:assert/strict';
import { customResourceDefinition, definitions, type StructuralSchema } from '@hearth/common/resources';
import { until } from '@hearth/common/testing';
import { Admission, type Answer, startApiServer, type TestApiServer } from '@hearth/common/testing/kubernetes';
import { cachePreloadCases } from './cache_preload_cases.ts';
import type { Case } from './custom_resource_case.ts';
import { datasetCases } from './dataset_cases.ts';
import { nodeCacheCases, storageClusterCases } from './storage_cluster_cases.ts';

const group = '/apis/hearth.storage/v1alpha1';
const paths: Record<string, string> = {
  StorageCluster: `${group}/storageclusters`,
  NodeCache: `${group}/nodecaches`,
  Dataset: `${group}/namespaces/default/datasets`,
  CachePreload: `${group}/namespaces/default/cachepreloads`,
};
const apiVersion = 'hearth.storage/v1alpha1';

describe('custom resources', () => {
  let server: TestApiServer;
  let admission: Admission;

  before(async function () {
    server = await startApiServer(this);
    admission = new Admission(server.kubeconfig);
    for (const definition of definitions) {
      const answer = await admission.create(
        '/apis/apiextensions.k8s.io/v1/customresourcedefinitions',
        customResourceDefinition(definition),
      );
      assert.equal(answer.code, 201, `${definition.plural}: ${JSON.stringify(answer.body)}`);
    }
    for (const path of Object.values(paths)) {
      await until(`${path} served`, async () => (await admission.ask('GET', path)).code === 200);
    }
  });
  after(() => server?.stop());

  const object = (kind: string, name: string, spec: object) => ({ apiVersion, kind, metadata: { name }, spec });
  const create = async (kind: string, name: string, spec: object): Promise<Answer> => {
    const answer = await admission.create(paths[kind] ?? '', object(kind, name, spec));
    assert.equal(answer.code, 201, JSON.stringify(answer.body));
    return answer;
  };
  const assertRefused = (answer: Answer, field: string, message: RegExp): void => {
    assert.ok(answer.code >= 400 && answer.code < 500, `taken: ${JSON.stringify(answer.body.spec)}`);
    assert.ok(
      answer.causes.some((one) => one.field === field && message.test(one.message)),
      `${field} ${message} is not among ${JSON.stringify(answer.causes)}`,
    );
  };

  for (const [kind, cases] of Object.entries({
    StorageCluster: storageClusterCases,
    Dataset: datasetCases,
    NodeCache: nodeCacheCases,
    CachePreload: cachePreloadCases,
  }) as [string, Case[]][]) {
    describe(kind, () => {
      for (const { what, spec, refused } of cases) {
        it(`${refused ? 'refuses' : 'takes'} ${what}`, async () => {
          const answer = await admission.create(paths[kind] ?? '', object(kind, 'tried', spec), { dryRun: true });
          if (refused) assertRefused(answer, refused.field, refused.message);
          else assert.equal(answer.code, 201, JSON.stringify(answer.causes));
        });
      }

      it('is found by its short name and its category', async () => {
        const found = (await admission.ask('GET', group)).body.resources.find(
          (one: { kind: string; name: string }) => one.kind === kind && !one.name.includes('/'),
        );
        assert.deepEqual(found.categories, ['hearth']);
        assert.equal(found.shortNames.length, 1);
      });
    });
  }

  it('explains every field', async () => {
    for (const plural of ['storageclusters', 'nodecaches', 'datasets', 'cachepreloads']) {
      const { code, body } = await admission.ask(
        'GET',
        `/apis/apiextensions.k8s.io/v1/customresourcedefinitions/${plural}.hearth.storage`,
      );
      assert.equal(code, 200);
      const { properties } = body.spec.versions[0].schema.openAPIV3Schema;
      for (const part of ['spec', 'status']) assertDescribed(properties[part], `${plural}.${part}`);
      const conditions = body.status.conditions as { type: string; status: string }[];
      assert.ok(!conditions.some((one) => one.type === 'NonStructuralSchema' && one.status === 'True'));
    }
  });

  it('lets no CachePreload become one of gated pods, nor any other of those', async () => {
    const [replicas, , , gated] = cachePreloadCases.map(({ spec }) => spec);
    for (const [name, before, after] of [
      ['plain', replicas, gated],
      ['gated', gated, replicas],
    ] as const) {
      await create('CachePreload', name, before ?? {});
      const path = `${paths.CachePreload}/${name}`;
      const present = (await admission.ask('GET', path)).body;
      const answer = await admission.ask('PUT', path, { ...present, spec: after });
      assertRefused(answer, 'spec.placement', /cannot be added or removed/);
    }
  });

  it('fills in defaults', async () => {
    const cluster = (await create('StorageCluster', 'defaults', storageClusterCases[0]?.spec ?? {})).body.spec;
    const [first] = cluster.nodeGroups;
    assert.deepEqual(first.cacheDirectories, [{ path: '/var/cache/hearth', budget: '70%', freeFloor: '20%' }]);
    assert.deepEqual(first.engine, {
      shards: 0,
      originConnections: 32,
      buffer: '256Mi',
      memory: '0',
      scrubRate: '20Mi',
    });
    assert.equal(cluster.origins.maxEntries, 2_000_000);
    assert.deepEqual(cluster.store, { etcd: { replicas: 1, storage: { emptyDir: {} } } });
    assert.deepEqual(cluster.startupTaint, { enabled: true, timeout: '10m' });
    assert.equal(cluster.agentAbsence, '15m');
    const partly = {
      ...storageClusterCases[0]?.spec,
      store: { etcd: { replicas: 3 } },
      startupTaint: { enabled: false },
    };
    const other = (await create('StorageCluster', 'partly', partly)).body.spec;
    assert.deepEqual(other.store.etcd.storage, { emptyDir: {} });
    assert.deepEqual(other.startupTaint, { enabled: false, timeout: '10m' });
    const hub = (await create('Dataset', 'defaults', { source: { hub: { repo: 'org/model' } } })).body.spec;
    assert.deepEqual(hub.source.hub, {
      endpoint: 'https://huggingface.co',
      layout: 'files',
      repoType: 'model',
      repo: 'org/model',
      revision: 'main',
    });
    assert.equal(hub.unusableNames, 'Fail');
    assert.equal(hub.weakValidators, 'Refuse');
  });

  it('refuses names that cannot become parts of other names', async () => {
    const long = await admission.create(
      paths.Dataset ?? '',
      object('Dataset', 'a'.repeat(64), { source: { selfTest: {} } }),
    );
    assert.match(JSON.stringify(long.causes), /no longer than 63 characters/);
    const cluster = storageClusterCases[0]?.spec ?? {};
    const longCluster = await admission.create(
      paths.StorageCluster ?? '',
      object('StorageCluster', 'a'.repeat(41), cluster),
    );
    assert.match(JSON.stringify(longCluster.causes), /no longer than 40 characters/);
    const dotted = await admission.create(paths.StorageCluster ?? '', object('StorageCluster', 'a.b', cluster));
    assert.match(JSON.stringify(dotted.causes), /must not contain dots/);
  });

  it('keeps what may not change', async () => {
    const made = (await create('Dataset', 'kept', { source: { hub: { repo: 'org/model' } } })).body;
    const path = `${paths.Dataset}/kept`;
    const with_ = (change: object) => ({ ...made, spec: { ...made.spec, ...change } });
    assertRefused(
      await admission.replace(path, with_({ source: { hub: { ...made.spec.source.hub, revision: 'other' } } })),
      'spec.source',
      /cannot be changed/,
    );
    assertRefused(
      await admission.replace(path, with_({ source: { selfTest: {} } })),
      'spec.source',
      /cannot be changed/,
    );
    const placed = await admission.replace(path, with_({ clusterRef: { name: 'main' }, include: ['*.json'] }));
    assert.equal(placed.code, 200, JSON.stringify(placed.causes));
    const moved = { ...placed.body, spec: { ...placed.body.spec, clusterRef: { name: 'other' } } };
    assertRefused(await admission.replace(path, moved), 'spec.clusterRef', /cannot move/);
    const { clusterRef: _, ...without } = placed.body.spec;
    assertRefused(await admission.replace(path, { ...placed.body, spec: without }), 'spec.clusterRef', /cannot move/);

    const cluster = (await create('StorageCluster', 'kept', storageClusterCases[0]?.spec ?? {})).body;
    const clusterPath = `${paths.StorageCluster}/kept`;
    const three = {
      ...cluster,
      spec: { ...cluster.spec, store: { etcd: { replicas: 3, storage: { emptyDir: {} } } } },
    };
    assertRefused(await admission.replace(clusterPath, three), 'spec.store.etcd', /cannot be changed in place/);
    const elsewhere = { ...cluster, spec: { ...cluster.spec, store: { endpoints: ['http://10.0.0.1:2379'] } } };
    assert.equal((await admission.replace(clusterPath, elsewhere)).code, 200);

    const node = (await create('NodeCache', 'kept', { clusterRef: { name: 'main' }, nodeName: 'a' })).body;
    const renamed = { ...node, spec: { ...node.spec, nodeName: 'b' } };
    assertRefused(await admission.replace(`${paths.NodeCache}/kept`, renamed), 'spec.nodeName', /cannot be changed/);
  });

  it('writes status apart from spec, bounded', async () => {
    await create('StorageCluster', 'status', storageClusterCases[0]?.spec ?? {});
    const path = `${paths.StorageCluster}/status`;
    const nodes = (count: number) =>
      Array.from({ length: count }, (_, i) => ({ name: `n${i}`, group: 'all', ready: true, reason: '', message: '' }));
    const written = await admission.merge(`${path}/status`, {
      spec: { logLevel: 'debug' },
      status: { nodesReady: 2, capacityBytes: 2 ** 52, nodes: nodes(500) },
    });
    assert.equal(written.code, 200, JSON.stringify(written.causes));
    assert.equal(written.body.spec.logLevel, 'info');
    assert.equal(written.body.status.capacityBytes, 2 ** 52);
    const refusedBy = async (status: object) => (await admission.merge(`${path}/status`, { status })).causes;
    assert.match(JSON.stringify(await refusedBy({ nodes: nodes(501) })), /status.nodes.*at most 500/);
    assert.match(
      JSON.stringify(await refusedBy({ nodes: [...nodes(1), ...nodes(1)] })),
      /status.nodes\[1\].*Duplicate|Duplicate.*status.nodes\[1\]/,
    );
    assert.match(JSON.stringify(await refusedBy({ nodesReady: -1 })), /status.nodesReady.*greater than or equal to 0/);
    const noReason = [{ type: 'Ready', status: 'Maybe', reason: 'no good', message: '', lastTransitionTime: 'now' }];
    const causes = JSON.stringify(await refusedBy({ conditions: noReason }));
    for (const field of ['status', 'reason', 'lastTransitionTime'])
      assert.match(causes, new RegExp(`conditions\\[0\\].${field}`));
  });

  it('shows integers in columns', async () => {
    await create('Dataset', 'shown', { source: { selfTest: {} } });
    const condition = {
      type: 'Ready',
      status: 'True',
      reason: 'Registered',
      message: 'ok',
      lastTransitionTime: '2026-01-01T00:00:00Z',
    };
    await admission.merge(`${paths.Dataset}/shown/status`, {
      status: { conditions: [condition], files: 3, bytes: 1_000_000_000_000, residentBytes: 7, percent: 99, nodes: 1 },
    });
    const table = await server.kubectl(['get', 'hds', 'shown', '-o', 'wide']);
    const [head = '', row = ''] = table.stdout.split('\n');
    assert.match(
      head,
      /^NAME +READY +FILES +BYTES +RESIDENT +PERCENT +NODES +REASON +REVISION +CLUSTER +REFRESHED +AGE$/,
    );
    assert.match(row, /^shown +True +3 +1000000000000 +7 +99 +1 +Registered /);
    for (const name of ['storageclusters,datasets,nodecaches', 'hsc,hds,hnc', 'hearth']) {
      const listed = await server.kubectl(['get', name]);
      assert.equal(listed.code, 0, listed.stderr);
      assert.match(listed.stdout, /dataset.hearth.storage\/shown/);
    }
  });
});

function assertDescribed(schema: StructuralSchema, path: string): void {
  for (const [name, one] of Object.entries(schema.properties ?? {})) {
    assert.ok(one.description, `${path}.${name} has no description`);
    if (one.type === 'string' && one.format === undefined && one.enum === undefined) {
      assert.ok(one.maxLength, `${path}.${name} has no bound`);
    }
    if (one.type === 'integer') assert.ok(one.maximum !== undefined, `${path}.${name} has no bound`);
    if (one.type === 'array') assert.ok(one.maxItems, `${path}.${name} has no bound`);
    assertDescribed(one.items ?? one, `${path}.${name}`);
  }
}
