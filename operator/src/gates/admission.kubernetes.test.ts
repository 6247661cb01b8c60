import assert from 'node:assert/strict';
import { kinds, type Pod } from '@hearth/common/kubernetes';
import { until } from '@hearth/common/testing';
import { releaseNamespace } from '@hearth/common/testing/kubernetes';
import {
  claimObject,
  datasetObject,
  GateCluster,
  type GateReplica,
  isGated,
  planOf,
  podObject,
} from './testing/gate_cluster.ts';

const foreign = { name: 'example.com/quota' };
const owner = (kind: string) => [{ apiVersion: 'apps/v1', kind, name: 'it', uid: 'u-1', controller: true }];

describe('admission of pods by a real API server', () => {
  let cluster: GateCluster;
  let replica: GateReplica;

  before(async function () {
    cluster = await GateCluster.start(this);
    replica = await cluster.replica('one');
    await cluster.askAt(await replica.listening());
    await until('the webhook is believed', () => replica.reasons.length === 0);
    await cluster.dataset('wait', { mode: 'Wait' });
    await cluster.dataset('off', { mode: 'Off' });
    await cluster.gates(podObject('probe', { datasets: ['wait'] }));
  });
  after(() => cluster?.stop());

  const dryRun = (pod: Pod) => cluster.dryRun(pod);
  const asked = async () => {
    const results = ['gated', 'provisional', 'unchanged', 'late', 'failed'];
    const counts = results.map((result) => replica.metric(`hearth_webhook_reviews_total{result="${result}"}`));
    return (await Promise.all(counts)).reduce((sum, one) => sum + one, 0);
  };

  it('gates pods of gated Datasets, and a dry run leaves nothing behind', async () => {
    const pod = await dryRun(podObject('web', { datasets: ['wait'] }));
    assert.deepEqual(pod.spec?.schedulingGates, [{ name: 'hearth.storage/preload' }]);
    assert.match(planOf(pod), /^web-[0-9a-f]{10}$/);
    assert.deepEqual(await cluster.preloads(), []);
    assert.equal(isGated(await dryRun(podObject('web', { datasets: ['off'] }))), false);
  });

  it('knows pods of a controller by it, though they have no name yet', async () => {
    const made = async () => {
      const pod = podObject(
        '',
        { datasets: ['wait'] },
        { metadata: { ownerReferences: owner('ReplicaSet') as never } },
      );
      const { name: _, ...metadata } = pod.metadata ?? {};
      return await dryRun({ ...pod, metadata: { ...metadata, generateName: 'it-' } });
    };
    const [one, other] = [await made(), await made()];
    assert.match(planOf(one), /^it-[0-9a-f]{10}$/);
    assert.equal(planOf(one), planOf(other));
  });

  it('leaves pods alone that have a node, of a DaemonSet, and gates of others', async () => {
    assert.equal(isGated(await dryRun(podObject('a', { datasets: ['wait'] }, { spec: { nodeName: 'n1' } }))), false);
    const ofSet = podObject(
      'b',
      { datasets: ['wait'] },
      { metadata: { ownerReferences: owner('DaemonSet') as never } },
    );
    assert.equal(isGated(await dryRun({ ...ofSet, metadata: { ...ofSet.metadata, name: 'b' } })), false);
    const gated = await dryRun(podObject('c', { datasets: ['wait'] }, { spec: { schedulingGates: [foreign] } }));
    assert.deepEqual(gated.spec?.schedulingGates, [foreign, { name: 'hearth.storage/preload' }]);
    const mine = { schedulingGates: [{ name: 'hearth.storage/preload' }] };
    const unchanged = await dryRun(podObject('d', { datasets: ['wait'] }, { spec: mine }));
    assert.deepEqual([unchanged.spec?.schedulingGates, planOf(unchanged)], [mine.schedulingGates, '']);
  });

  it('is asked about nothing that cannot concern it', async () => {
    const before = await asked();
    await dryRun(podObject('plain', {}));
    await dryRun(podObject('bound', { datasets: ['wait'] }, { spec: { nodeName: 'n1' } }));
    const volumes = [{ name: 'x', csi: { driver: 'else', volumeAttributes: { dataset: 'wait' } } }];
    await dryRun(podObject('else', {}, { spec: { volumes } }));
    for (const namespace of ['kube-system', 'kube-node-lease', releaseNamespace]) {
      if (!(await cluster.api.get(kinds.Namespace, namespace))) await cluster.kubectl('create', 'namespace', namespace);
      const pod = podObject('web', { datasets: ['wait'] }, { metadata: { name: 'web', namespace } });
      assert.equal(isGated(await dryRun(pod)), false, namespace);
    }
    assert.equal(await asked(), before);
    const annotations = { 'hearth.storage/gate': 'Wait' };
    await dryRun(podObject('noted', {}, { metadata: { name: 'noted', namespace: 'default', annotations } }));
    assert.equal(await asked(), before + 1);
  });

  it('warns people by kubectl what it does not heed', async () => {
    const say = async (annotations: Record<string, string>, datasets = ['wait']) => {
      const pod = podObject('web', { datasets }, { metadata: { name: 'web', namespace: 'default', annotations } });
      const outcome = await cluster.tryKubectl(['create', '--dry-run=server', '-f', '-'], JSON.stringify(pod));
      assert.equal(outcome.code, 0);
      return outcome.stderr;
    };
    assert.match(
      await say({ 'hearth.storage/gate-timeout': 'soon' }),
      /Warning: hearth: the annotation hearth.storage\/gate-timeout is not a duration from 1s to 24h/,
    );
    assert.match(await say({ 'hearth.storage/gate': 'Wait' }, []), /no volume of the pod is one of a Dataset/);
    assert.equal(await say({ 'hearth.storage/gate': 'Off' }), '');
  });

  it('looks through claims, volumes and templates', async () => {
    await cluster.apply(claimObject('asks', 'wait'), claimObject('disk', undefined));
    assert.equal(isGated(await dryRun(podObject('a', { claims: ['asks', 'disk'] }))), true);
    assert.equal(isGated(await dryRun(podObject('b', { claims: ['disk'] }))), false);
    const csi = {
      driver: 'csi.hearth.storage',
      volumeHandle: 'h',
      readOnly: true,
      volumeAttributes: { cluster: 'main', datasetNamespace: 'default', dataset: 'wait' },
    };
    const spec = { capacity: { storage: '1Gi' }, accessModes: ['ReadOnlyMany'], storageClassName: '' };
    await cluster.apply(
      { apiVersion: 'v1', kind: 'PersistentVolume', metadata: { name: 'static' }, spec: { ...spec, csi } },
      {
        apiVersion: 'v1',
        kind: 'PersistentVolumeClaim',
        metadata: { name: 'static', namespace: 'default' },
        spec: {
          accessModes: ['ReadOnlyMany'],
          storageClassName: '',
          volumeName: 'static',
          resources: { requests: { storage: '1Gi' } },
        },
      },
    );
    assert.equal(isGated(await dryRun(podObject('c', { claims: ['static'] }))), true);
    const { spec: template } = claimObject('x', 'wait') as { spec: object };
    const volumes = [{ name: 'own', ephemeral: { volumeClaimTemplate: { spec: template as never } } }];
    assert.equal(isGated(await dryRun(podObject('d', {}, { spec: { volumes } }))), true);
    await cluster.kubectl('delete', 'pvc', '--all', '--wait=false');
  });

  it('sees what was made a moment ago, and waits half a second for what is not there', async () => {
    await cluster.apply(datasetObject('fresh', { mode: 'Prefer' }), claimObject('fresh', 'fresh'));
    assert.equal(isGated(await dryRun(podObject('a', { claims: ['fresh'] }))), true);
    const began = performance.now();
    assert.equal(isGated(await dryRun(podObject('b', { claims: ['never'] }))), true, 'provisionally');
    assert.ok(performance.now() - began >= 500);
    const annotations = { 'hearth.storage/gate': 'Off' };
    const metadata = { name: 'c', namespace: 'default', annotations };
    assert.equal(isGated(await dryRun(podObject('c', { claims: ['never'] }, { metadata }))), false);
  });

  it('goes on with a certificate that was lost, and with one of a new authority', async () => {
    const bundle = async () => {
      const found = await cluster.api.get(kinds.MutatingWebhookConfiguration, 'hearth-webhook');
      return found?.webhooks?.[0]?.clientConfig.caBundle ?? '';
    };
    const first = await bundle();
    assert.notEqual(first, '');
    await cluster.kubectl('delete', 'secret', 'hearth-webhook', '-n', releaseNamespace);
    await until('another authority', async () => (await bundle()) !== first);
    await cluster.gates(podObject('a', { datasets: ['wait'] }));
    const secret = await cluster.api.get(kinds.Secret, 'hearth-webhook', releaseNamespace);
    assert.deepEqual(Object.keys(secret?.data ?? {}).sort(), ['ca.crt', 'ca.key', 'tls.crt', 'tls.key']);
    assert.equal(secret?.data?.['ca.crt'], await bundle());
  });

  it('is done by every replica, and hurts no pod when no replica is there', async () => {
    const standby = await cluster.replica('two');
    await until('it has the certificate', () => standby.reasons.length === 0);
    assert.equal(standby.election.isLeader, false);
    await cluster.askAt(await standby.listening());
    await until('the other one is asked', async () => {
      await dryRun(podObject('a', { datasets: ['wait'] }));
      return (await standby.metric('hearth_webhook_reviews_total{result="gated"}')) > 0;
    });
    await standby.stop();
    assert.equal(isGated(await dryRun(podObject('b', { datasets: ['wait'] }))), false, 'it runs cold');
    await cluster.askAt(await replica.listening());
    await cluster.gates(podObject('c', { datasets: ['wait'] }));
  });
});
