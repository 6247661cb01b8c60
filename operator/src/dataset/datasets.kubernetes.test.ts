import assert from 'node:assert/strict';
import { HearthError } from '@hearth/common';
import { elapse, until } from '@hearth/common/testing';
import { conditionOf, DatasetCluster, datasetObject, promptAgents, storageCluster } from './testing/dataset_cluster.ts';
import { FakeAgents } from './testing/fake_agents.ts';
import { agentDataset, manifest, residency } from './testing/fixtures.ts';
import { grant, TestOperator } from './testing/test_operator.ts';

/** Added to the time of day as the operator sees it, milliseconds. */
let skew = 0;
/** Between two writes of figures. */
const figuresMs = 5_000;
const quickly = {
  secretTimes: { foundMs: 500, failedMs: 500 },
  // No test takes so long; those that are about it put the operator's clock forward.
  removalTimeoutMs: 600_000,
  now: () => Date.now() + skew,
};

describe('Datasets in a real API server', () => {
  let cluster: DatasetCluster;
  let agents: FakeAgents;
  let operator: TestOperator | undefined;
  /** How listings fail; undefined: they do not. */
  let listing: HearthError | undefined;
  /** The agents' finding. */
  let found: Parameters<typeof agentDataset>[0];

  before(async function () {
    cluster = await DatasetCluster.start(this);
  });
  after(() => cluster?.stop());

  beforeEach(async () => {
    listing = undefined;
    found = {};
    agents = new FakeAgents('main', async function* ({ name }) {
      yield { filesListed: 1n };
      if (listing !== undefined) throw listing;
      yield { dataset: agentDataset({ name, ...found }) };
    });
    agents.connect();
    await cluster.apply(storageCluster('main', ['/data']));
    operator = new TestOperator(cluster.operator, agents, quickly);
  });
  afterEach(async () => {
    agents.failing.clear();
    await cluster.kubectl('delete', 'datasets,pods', '--all', '-A', '--wait=false', '--grace-period=0', '--force');
    await until('no Dataset left', async () => (await cluster.kubectl('get', 'datasets', '-A', '-o', 'name')) === '');
    await operator?.stop();
    await cluster.kubectl('delete', 'storageclusters', '--all');
  });

  /** Lets the operator look at a Dataset when this time has passed. */
  async function later(name: string, ms: number): Promise<void> {
    skew += ms;
    await cluster.kubectl('annotate', 'dataset', name, `test/skew=${skew}`, '--overwrite');
  }

  it('are registered, and show what agents know', async () => {
    await cluster.apply(datasetObject('llama'));
    const dataset = await cluster.reason('llama', 'Ready');
    assert.deepEqual(dataset.metadata.finalizers, ['hearth.storage/finalizer']);
    const { status } = dataset;
    assert.deepEqual([status?.cluster, status?.manifest, status?.files, status?.bytes], ['main', manifest, 3, 1000]);
    assert.equal(status?.observedGeneration, 1);
    assert.ok(status?.conditions?.every((one) => one.observedGeneration === 1));
    skew += figuresMs;
    agents.know('default.llama', agentDataset({ name: 'default.llama', residency: [residency('n1', 1000n)] }));
    await until('residency', async () => (await cluster.dataset('llama')).status?.percent === 100);
    const row = (await cluster.kubectl('get', 'dataset', 'llama', '--no-headers')).split(/\s+/);
    assert.deepEqual(row.slice(0, 7), ['llama', 'True', '3', '1000', '1000', '100', '1']);
    await until('event', async () =>
      (await cluster.eventsOf('Dataset', 'llama')).some((one) => one.includes('Normal Ready')),
    );
  });

  it('wait for a StorageCluster and recover by themselves', async () => {
    await cluster.kubectl('delete', 'storagecluster', 'main');
    await cluster.apply(datasetObject('early'), datasetObject('named', { clusterRef: { name: 'main' } }));
    await cluster.reason('early', 'ClusterNotFound');
    const named = await cluster.reason('named', 'ClusterNotFound');
    assert.match(conditionOf(named, 'Ready')?.message ?? '', /waits for StorageCluster main/);
    await cluster.apply(storageCluster('other'));
    await cluster.reason('early', 'AgentsUnavailable');
    await cluster.apply(storageCluster('main'));
    await cluster.reason('early', 'ClusterAmbiguous');
    await cluster.kubectl('delete', 'storagecluster', 'other');
    await cluster.reason('early', 'Ready');
    await cluster.reason('named', 'Ready');
    await cluster.apply(storageCluster('second'));
    await elapse(500, 'it would go to the other one');
    assert.equal(conditionOf(await cluster.dataset('early'), 'Ready')?.reason, 'Ready', 'it stays where it is');
  });

  it('wait for their Secret, and print the command that lets the operator read it', async () => {
    await cluster.apply(
      datasetObject('gated', {
        source: { hub: { repo: 'o/m' } },
        secretRef: { name: 'hub' },
      }),
    );
    const forbidden = await cluster.reason('gated', 'SecretForbidden');
    const message = conditionOf(forbidden, 'Ready')?.message ?? '';
    const command = /allow it with: kubectl (create rolebinding .*)$/.exec(message)?.[1];
    assert.ok(command, message);
    assert.equal(conditionOf(forbidden, 'CredentialsReady')?.reason, 'SecretForbidden');
    await cluster.kubectl(...command.split(' '));
    await cluster.reason('gated', 'SecretNotFound');
    await cluster.kubectl('create', 'secret', 'generic', 'hub', '--from-literal=password=hf_wrongkey');
    const missing = await cluster.reason('gated', 'SecretKeyMissing');
    assert.match(conditionOf(missing, 'Ready')?.message ?? '', /no usable value for token, .*; its keys are password$/);
    assert.equal(agents.called('addDataset').length, 0, 'no agent is asked without credentials');
    await cluster.kubectl('patch', 'secret', 'hub', '-p', '{"stringData":{"token":"hf_first"}}');
    await cluster.reason('gated', 'Ready');
    const [added] = agents.called('addDataset') as { credentials?: { token: string } }[];
    assert.equal(added?.credentials?.token, 'hf_first');
    await cluster.kubectl('patch', 'secret', 'hub', '-p', '{"stringData":{"token":"hf_second"}}');
    await until('new credentials', async () =>
      (agents.called('setCredentials') as { credentials?: { token: string } }[]).some(
        ({ credentials }) => credentials?.token === 'hf_second',
      ),
    );
    const given = agents.called('setCredentials').length;
    agents.connect(false);
    agents.connect();
    await until('credentials again', async () => agents.called('setCredentials').length > given);
    const everything = await cluster.kubectl('get', 'datasets,events', '-A', '-o', 'json');
    assert.doesNotMatch(everything, /hf_(first|second|wrongkey)|aGZf/, 'no secret in status or events');
    await cluster.kubectl('delete', 'secret', 'hub');
    await cluster.kubectl('delete', 'rolebinding', grant.clusterRole);
  });

  it('report why an origin fails, once, and try it again later and later', async () => {
    listing = new HearthError('Unauthenticated', 'the hub answered 401 for o/m; give a token by secretRef');
    await cluster.apply(datasetObject('broken', { source: { hub: { repo: 'o/m' } } }));
    await cluster.reason('broken', 'Unauthenticated');
    const before = await cluster.dataset('broken');
    await until('three tries', async () => agents.called('addDataset').length >= 3);
    const after = await cluster.dataset('broken');
    assert.equal(after.metadata.resourceVersion, before.metadata.resourceVersion, 'nothing is written by a retry');
    const warnings = await until('an event', async () => {
      const reported = (await cluster.eventsOf('Dataset', 'broken')).filter((one) => one.includes('Unauthenticated'));
      return reported.length > 0 && reported;
    });
    assert.deepEqual(warnings, [`Warning Unauthenticated: ${listing.message}`]);
    listing = undefined;
    await later('broken', 8_000);
    await cluster.reason('broken', 'Ready');
  });

  it('may be directories only where the StorageCluster says so', async () => {
    await cluster.apply(datasetObject('etc', { source: { directory: { path: '/etc' } } }));
    await cluster.reason('etc', 'DirectoryNotAllowed');
    assert.deepEqual(agents.calls, []);
    await cluster.apply(storageCluster('main', ['/data', '/etc']));
    await cluster.reason('etc', 'Ready');
  });

  it('show files of the scratch volume behind a claim, once it is bound', async () => {
    await cluster.apply(datasetObject('trained', { source: { volume: { claimName: 'runs', path: 'latest' } } }));
    await cluster.reason('trained', 'ClaimNotFound');
    assert.deepEqual(agents.called('addDataset'), []);
    const attributes = { volume: 'pvc-1', cluster: 'main' };
    await cluster.apply({
      apiVersion: 'v1',
      kind: 'PersistentVolume',
      metadata: { name: 'pvc-1' },
      spec: {
        capacity: { storage: '1Gi' },
        accessModes: ['ReadWriteMany'],
        claimRef: { namespace: 'default', name: 'runs' },
        csi: { driver: 'csi.hearth.storage', volumeHandle: 'pvc-1', volumeAttributes: attributes },
      },
    });
    const bound = JSON.stringify({ status: { phase: 'Bound' } });
    await cluster.kubectl('patch', 'pv', 'pvc-1', '--subresource=status', '--type=merge', '-p', bound);
    await cluster.reason('trained', 'Ready');
    const [request] = agents.called('addDataset') as { source: { kind: unknown } }[];
    assert.deepEqual(request?.source.kind, { $case: 'volume', value: { name: 'pvc-1', path: 'latest' } });
    await cluster.kubectl('delete', 'pv', 'pvc-1', '--wait=false');
    await cluster.reason('trained', 'ClaimNotFound');
  });

  it('are listed again when their patterns change; their source cannot', async () => {
    await cluster.apply(datasetObject('llama', { source: { hub: { repo: 'o/m' } } }));
    await cluster.reason('llama', 'Ready');
    await cluster.kubectl('patch', 'dataset', 'llama', '--type=merge', '-p', '{"spec":{"include":["*.json"]}}');
    const registered = () => cluster.dataset('llama').then((dataset) => conditionOf(dataset, 'Registered'));
    await until('registered anew', async () => {
      const condition = await registered();
      return condition?.status === 'True' && condition.observedGeneration === 2;
    });
    const added = agents.called('addDataset') as { include: string[] }[];
    assert.deepEqual(
      added.map(({ include }) => include),
      [[], ['*.json']],
    );
    const patch = '{"spec":{"source":{"hub":{"repo":"o/other"}}}}';
    const refused = await cluster.server.kubectl(['patch', 'dataset', 'llama', '--type=merge', '-p', patch]);
    assert.match(refused.stderr, /the source of a Dataset cannot be changed/);
  });

  it('are registered again when the store of the agents is new', async () => {
    await cluster.apply(datasetObject('a'), datasetObject('b'));
    await cluster.reason('a', 'Ready');
    await cluster.reason('b', 'Ready');
    await until('settled', async () => agents.status?.datasets.size === 2);
    // Agents that do not know the Dataset by then have forgotten it.
    skew += 11_000;
    agents.forgetAll();
    await until('known again', async () => agents.status?.datasets.size === 2);
    await cluster.reason('a', 'Ready');
    await cluster.reason('b', 'Ready');
  });

  it('are asked for new revisions in their interval, and report them', async () => {
    await cluster.apply(datasetObject('moving', { refresh: { interval: '10s' } }));
    await cluster.reason('moving', 'Ready');
    const next = 'b'.repeat(64);
    found = { manifest: next, revision: 'second' };
    await until('the next revision', async () => (await cluster.dataset('moving')).status?.manifest === next);
    await until('event', async () => {
      return (await cluster.eventsOf('Dataset', 'moving')).some((one) =>
        one.startsWith('Normal NewRevision: revision second'),
      );
    });
    listing = new HearthError('Unavailable', 'the hub answered 503');
    await later('moving', 10_000);
    const refreshed = async () => conditionOf(await cluster.dataset('moving'), 'Refreshed');
    await until('the failure', async () => (await refreshed())?.reason === 'Unavailable');
    assert.equal(conditionOf(await cluster.dataset('moving'), 'Ready')?.status, 'True');
    listing = undefined;
    await until('the recovery', async () => (await refreshed())?.status === 'True');
  });

  it('keep what was known while agents are away', async () => {
    await cluster.apply(datasetObject('llama'));
    const before = await cluster.reason('llama', 'Ready');
    agents.connect(false);
    await cluster.apply(datasetObject('later'));
    await cluster.reason('later', 'AgentsUnavailable');
    const after = await cluster.dataset('llama');
    assert.equal(after.metadata.resourceVersion, before.metadata.resourceVersion);
    agents.connect();
    await cluster.reason('later', 'Ready');
  });

  it('stay while a pod uses them, and say so', async () => {
    await cluster.apply(datasetObject('llama'));
    await cluster.reason('llama', 'Ready');
    const csi = { driver: 'csi.hearth.storage', readOnly: true, volumeAttributes: { dataset: 'llama' } };
    const containers = [{ name: 'c', image: 'none' }];
    await cluster.apply({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'reader', namespace: 'default' },
      spec: { containers, volumes: [{ name: 'v', csi }], automountServiceAccountToken: false },
    });
    await cluster.kubectl('delete', 'dataset', 'llama', '--wait=false');
    const dataset = await cluster.reason('llama', 'InUse');
    assert.match(conditionOf(dataset, 'Ready')?.message ?? '', /stays readable for pod default\/reader$/);
    await until('event', async () =>
      (await cluster.eventsOf('Dataset', 'llama')).some((one) => one.startsWith('Warning InUse')),
    );
    assert.deepEqual(agents.called('removeDataset'), []);
    await cluster.kubectl('delete', 'pod', 'reader', '--grace-period=0', '--force');
    await cluster.gone('dataset', 'llama');
    assert.deepEqual(agents.called('removeDataset')[0], { name: 'default.llama', evict: true, nodes: [] });
  });

  it('end although agents do not answer, or their StorageCluster has gone', async () => {
    await cluster.apply(datasetObject('a'), datasetObject('b'));
    await cluster.reason('a', 'Ready');
    await cluster.reason('b', 'Ready');
    agents.failing.set('removeDataset', new HearthError('Unavailable', 'no agent answers'));
    await cluster.kubectl('delete', 'storagecluster', 'main');
    await cluster.kubectl('delete', 'dataset', 'b', '--wait=false');
    await cluster.gone('dataset', 'b');
    await cluster.apply(storageCluster('main'));
    await cluster.reason('a', 'Ready');
    await cluster.kubectl('delete', 'dataset', 'a', '--wait=false');
    await cluster.reason('a', 'Deleting');
    // The operator tries again by itself, so it may see the new time and let the Dataset go before the annotation comes.
    await later('a', quickly.removalTimeoutMs).catch((error: unknown) => assert.match(String(error), /NotFound/));
    await cluster.gone('dataset', 'a');
  });

  it('catch up when the API server was away', async () => {
    await cluster.apply(datasetObject('llama'));
    await cluster.reason('llama', 'Ready');
    await cluster.server.down();
    // So that it tries to write meanwhile.
    skew += figuresMs;
    agents.know('default.llama', agentDataset({ name: 'default.llama', residency: [residency('n1', 1000n)] }));
    await elapse(2_000, 'it tries to write');
    await cluster.server.up();
    await until('residency', async () => (await cluster.dataset('llama')).status?.percent === 100);
    await cluster.apply(datasetObject('later'));
    await cluster.reason('later', 'Ready');
  });

  it('need no write of a second operator that takes over', async () => {
    await cluster.apply(datasetObject('a'), datasetObject('b', { source: { directory: { path: '/etc' } } }));
    await cluster.reason('a', 'Ready');
    await cluster.reason('b', 'DirectoryNotAllowed');
    await operator?.stop();
    const versions = () => cluster.kubectl('get', 'datasets', '-o', 'jsonpath={.items[*].metadata.resourceVersion}');
    const before = await versions();
    const later = promptAgents('main');
    later.knowAll(agents.status?.datasets ?? new Map());
    agents = later;
    operator = new TestOperator(cluster.operator, later, quickly);
    await elapse(2_000, 'it would write');
    assert.equal(await versions(), before);
    assert.deepEqual(later.calls, []);
  });
});
