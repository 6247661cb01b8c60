import assert from 'node:assert/strict';
import { kinds, type Pod } from '@hearth/common/kubernetes';
import { until } from '@hearth/common/testing';
import { Admission, type Answer } from '@hearth/common/testing/kubernetes';
import { GateCluster, hostsOf, isGated, megabyte, operatorUser, planOf, podObject } from './testing/gate_cluster.ts';
import { LabellingWebhook } from './testing/labelling_webhook.ts';

const ours = { name: 'hearth.storage/preload' };
const foreign = { name: 'example.com/quota' };
const path = (name: string) => `/api/v1/namespaces/default/pods/${name}`;

describe("updates of pods by the operator, which the chart's policy holds to gates and affinity", () => {
  let cluster: GateCluster;
  let hearth: Admission;
  let tolerations: object[];

  /** The API server's answer; the change is not made. */
  const patch = (name: string, change: object): Promise<Answer> =>
    hearth.ask('PATCH', `${path(name)}?dryRun=All`, change, 'application/merge-patch+json');

  before(async function () {
    cluster = await GateCluster.start(this);
    hearth = new Admission(cluster.server.kubeconfig, operatorUser);
    const metadata = { labels: { app: 'a', team: 'x' }, annotations: { note: 'n', more: 'm' } };
    const spec = { schedulingGates: [ours, foreign] };
    const pod = podObject('gated', {}, { metadata: { name: 'gated', namespace: 'default', ...metadata }, spec });
    tolerations = (await cluster.api.create(kinds.Pod, pod)).spec?.tolerations ?? [];
    await cluster.api.create(kinds.Pod, podObject('plain', {}, { spec: { schedulingGates: [ours] } }));
    const released = { name: 'released', namespace: 'default', ...metadata };
    await cluster.api.create(kinds.Pod, podObject('released', {}, { metadata: released }));
    await until('the policy holds', async () => {
      return (await patch('gated', { metadata: { labels: { app: 'b' } } })).code === 422;
    });
  });
  after(() => cluster?.stop());

  /** As a release does. */
  const opened = { schedulingGates: [foreign] };
  const seen = { labels: { 'example.com/seen': 'yes' } };
  const by = { annotations: { 'example.com/by': 'somebody' } };

  const terms = [{ matchExpressions: [{ key: 'kubernetes.io/hostname', operator: 'In', values: ['n1'] }] }];
  const affinity = { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: terms } } };
  const allowed: Record<string, [pod: string, change: object]> = {
    'nothing else': ['gated', { spec: opened }],
    'an affinity': ['gated', { spec: { ...opened, affinity } }],
    'a new label': ['gated', { metadata: seen, spec: opened }],
    'a new annotation': ['gated', { metadata: by, spec: opened }],
    'both, and an affinity': ['gated', { metadata: { ...seen, ...by }, spec: { ...opened, affinity } }],
    'both on a pod without any': ['plain', { metadata: { ...seen, ...by }, spec: { schedulingGates: [] } }],
  };
  for (const [what, [pod, change]] of Object.entries(allowed)) {
    it(`may bring ${what} when they open a gate`, async () => {
      const { code, causes } = await patch(pod, change);
      assert.equal(code, 200, JSON.stringify(causes));
    });
  }

  const reference = { apiVersion: 'v1', kind: 'ConfigMap', name: 'other', uid: 'an-uid' };
  const metadataRefused: Record<string, object> = {
    'another value of a label': { labels: { app: 'b' } },
    'another value of a label beside a new one': { labels: { ...seen.labels, app: 'b' } },
    'an empty value of a label': { labels: { app: '' } },
    'a label less': { labels: { team: null } },
    'a label less and one more': { labels: { ...seen.labels, team: null } },
    'no labels': { labels: null },
    'another value of an annotation': { annotations: { note: 'changed' } },
    'an annotation less': { annotations: { more: null, ...by.annotations } },
    'no annotations': { annotations: null },
    'a finalizer': { finalizers: ['example.com/kept'] },
    'a finalizer beside a new label': { ...seen, finalizers: ['example.com/kept'] },
    'an owner': { ownerReferences: [reference] },
    'an owner beside a new label': { ...seen, ownerReferences: [reference] },
  };
  for (const [what, metadata] of Object.entries(metadataRefused)) {
    it(`may not bring ${what}, whether they open a gate or not`, async () => {
      for (const spec of [{}, opened]) {
        const { code, causes } = await patch('gated', { metadata, spec });
        assert.equal(code, 422, JSON.stringify(causes));
        assert.match(JSON.stringify(causes), /Hearth changes no (metadata|label)/);
      }
    });
  }

  const specRefused: Record<string, () => object> = {
    'a gate of others less': () => ({ schedulingGates: [] }),
    'an image': () => ({
      ...opened,
      containers: [{ name: 'main', image: 'other', resources: { requests: { cpu: '100m' } } }],
    }),
    'a toleration': () => ({ ...opened, tolerations: [...tolerations, { operator: 'Exists' }] }),
    'a deadline': () => ({ ...opened, activeDeadlineSeconds: 5 }),
    'a node selector': () => ({ ...opened, nodeSelector: { a: 'b' } }),
  };
  for (const [what, spec] of Object.entries(specRefused)) {
    it(`may not bring ${what} beside a new label`, async () => {
      const { code, causes } = await patch('gated', { metadata: { ...seen, ...by }, spec: spec() });
      assert.equal(code, 422, JSON.stringify(causes));
      assert.match(JSON.stringify(causes), /Hearth changes/);
    });
  }

  it('may bring no label and no annotation when they open no gate of Hearth', async () => {
    const closed: [string, object][] = [
      ['gated', {}],
      ['gated', { schedulingGates: [ours, foreign] }],
      ['released', {}],
    ];
    for (const [pod, spec] of closed) {
      for (const metadata of [seen, by]) {
        const { code, causes } = await patch(pod, { metadata, spec });
        assert.equal(code, 422, JSON.stringify(causes));
        assert.match(JSON.stringify(causes), /no metadata/);
      }
    }
  });

  describe('where a webhook of others labels whatever is updated', () => {
    const labels = { app: 'web' };
    before(async () => {
      await cluster.clear();
      await cluster.node('n1');
      cluster.agents.serve('n1');
      const replica = await cluster.replica('one');
      await cluster.askAt(await replica.listening());
      await until('it leads and may be asked', () => replica.election.isLeader && replica.reasons.length === 0);
      await cluster.dataset('model', { mode: 'Wait', affinity: 'Required' });
      cluster.agents.hold('n1', 'default.model', 0n, BigInt(megabyte));
      await until('pods are gated', async () => {
        const args = ['create', '--dry-run=server', '-o', 'json', '-f', '-'];
        const pod = podObject('probe', { datasets: ['model'] });
        return isGated(JSON.parse((await cluster.tryKubectl(args, JSON.stringify(pod))).stdout));
      });
      await cluster.api.create(kinds.Pod, podObject('asked', {}, { spec: { schedulingGates: [foreign] } }));
    });

    /** Has the API server ask the webhook, of which it hears on a watch: it is in force when this returns. */
    const configure = async (labelling: LabellingWebhook): Promise<void> => {
      await cluster.apply(labelling.configuration);
      await until('the webhook is asked', async () => {
        const metadata = { annotations: { 'example.com/look': String(performance.now()) } };
        // Until it hears, it may ask the one before, which is gone.
        await cluster.api.patch(kinds.Pod, 'asked', 'default', { metadata }, { kind: 'merge' }).catch(() => undefined);
        return labelling.asked.size > 0;
      });
    };

    const make = (name: string): Promise<Pod> => {
      const metadata = { name, namespace: 'default', labels };
      return cluster.api.create(kinds.Pod, podObject(name, { datasets: ['model'] }, { metadata }));
    };

    it('open gates all the same, by one update and with the affinity of the plan', async () => {
      await using labelling = await LabellingWebhook.start(cluster.server.folder, seen.labels);
      await configure(labelling);
      try {
        const plan = planOf(await make('web'));
        await cluster.event('web', /GateWaiting/);
        cluster.agents.hold('n1', 'default.model', BigInt(megabyte));
        const pod = await cluster.released('web');
        assert.deepEqual(pod.metadata?.labels, { ...labels, ...seen.labels });
        assert.equal(pod.metadata?.annotations?.['example.com/by'], operatorUser, 'it was asked about the release');
        assert.equal(planOf(pod), plan);
        assert.ok(hostsOf(pod).includes('host-n1'), 'no affinity was given up for it');
        assert.equal(labelling.asked.get(operatorUser), 1);
        await cluster.event('web', /GateWarm/);
      } finally {
        await cluster.kubectl('delete', 'mutatingwebhookconfiguration', 'labelling');
      }
    });

    it('say so where it changes a label that is there, and open when it is gone', async () => {
      await using labelling = await LabellingWebhook.start(cluster.server.folder, { app: 'changed' });
      await configure(labelling);
      try {
        await make('refused');
        const event = await cluster.event('refused', /GateRefused/);
        assert.match(event, /^Warning .*Hearth changes no label and no annotation of pods/);
        assert.ok(isGated(await cluster.pod('refused')));
      } finally {
        await cluster.kubectl('delete', 'mutatingwebhookconfiguration', 'labelling');
      }
      const pod = await cluster.released('refused');
      assert.deepEqual(pod.metadata?.labels, labels);
    });
  });
});
