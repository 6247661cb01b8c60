import assert from 'node:assert/strict';
import { request } from 'node:https';
import { join } from 'node:path';
import { kinds } from '@hearth/common/kubernetes';
import { freePort, root, run, until } from '@hearth/common/testing';
import { OperatorProcess } from '@hearth/common/testing/kubernetes';
import { namespace, OperatorFixture } from '../../operator/src/operator/testing/operator_fixture.ts';

const program = join(root, 'operator/bin/hearth-operator');
const cleanup = join(root, 'operator/bin/hearth-cleanup');

describe('the programs of the operator', () => {
  let fixture: OperatorFixture;
  let operatorKubeconfig: string;
  let cleanupKubeconfig: string;
  const processes: OperatorProcess[] = [];

  before(async function () {
    fixture = await OperatorFixture.start(this);
    operatorKubeconfig = fixture.operatorKubeconfig();
    const cleanup = `system:serviceaccount:${namespace}:hearth-cleanup`;
    cleanupKubeconfig = fixture.server.userKubeconfig(cleanup, ['system:authenticated']);
    await fixture.node('n1');
    await fixture.api.create(kinds.Namespace, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'team' } });
  });
  after(async () => {
    for (const one of processes) await one.end();
    await fixture?.stop();
  });

  async function start(variables: Record<string, string> = {}): Promise<OperatorProcess> {
    const started = await OperatorProcess.start(operatorKubeconfig, variables);
    processes.push(started);
    await started.ready();
    return started;
  }

  it('say what they are and what is missing', async () => {
    for (const path of [program, cleanup]) {
      const help = await run(path, ['--help']);
      assert.equal(help.code, 0);
      assert.match(help.stdout, /^Usage: hearth-/);
    }
    const outcome = await run(program, [], { environment: { POD_NAMESPACE: '' } });
    assert.equal(outcome.code, 2);
    assert.match(outcome.stderr, /^hearth-operator: the variable POD_NAMESPACE is missing/);
  });

  it('serve health and metrics, reconcile and end in order', async () => {
    const operator = await start();
    await fixture.cluster('models');
    await fixture.expect('agents', kinds.DaemonSet, 'hearth-models-all-agent');
    assert.equal((await fetch(`${operator.url}/healthz`)).status, 200);
    const connected = /^hearth_operator_agents_connected\{cluster="models"\} 0$/m;
    const metrics = await until('the agents are known', async () => {
      const text = await (await fetch(`${operator.url}/metrics`)).text();
      return connected.test(text) && text;
    });
    assert.match(metrics, /^hearth_operator_leader 1$/m);
    assert.match(metrics, /^hearth_operator_objects\{reflector="clusters"\} 1$/m);
    const events = await fixture.api.list(kinds.CoreEvent, {});
    assert.ok(events.items.every(({ message }) => !/PRIVATE KEY|tls\.key/.test(message ?? '')));
    const ended = await operator.end('SIGTERM');
    assert.equal(ended.code, 0);
    assert.ok(!/PRIVATE KEY/.test(ended.stderr));
    const lease = await fixture.api.get(kinds.Lease, 'hearth-operator', namespace);
    assert.equal(lease?.spec?.holderIdentity ?? '', '', 'the next leader need not wait');
  });

  const datasetOf = (name: string) =>
    fixture.api.create(kinds.Dataset, {
      apiVersion: 'hearth.storage/v1alpha1',
      kind: 'Dataset',
      metadata: { name, namespace: 'team', finalizers: ['hearth.storage/finalizer', 'example.org/kept'] },
      spec: { source: { selfTest: {} } },
    } as never);

  const operatorLabels = { 'app.kubernetes.io/name': 'hearth', 'app.kubernetes.io/component': 'operator' };
  async function deployOperator(): Promise<void> {
    const metadata = { name: 'hearth-operator', namespace };
    const spec = { containers: [{ name: 'operator', image: 'none' }] };
    const template = { metadata: { labels: operatorLabels }, spec };
    await fixture.api.create(kinds.Deployment, {
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata,
      spec: { replicas: 2, selector: { matchLabels: operatorLabels }, template },
    });
    await fixture.pod('operator-0', operatorLabels, 'n1', {});
  }

  it('answer reviews of pods with a certificate of their own', async () => {
    const port = await freePort();
    const operator = await start({ HEARTH_WEBHOOK_PORT: String(port) });
    const secret = await fixture.expect('the certificate', kinds.Secret, 'hearth-webhook');
    const ca = Buffer.from(secret.data?.['ca.crt'] ?? '', 'base64').toString();
    const resource = { group: '', version: 'v1', resource: 'pods' };
    const pod = { metadata: { name: 'plain' }, spec: { containers: [] } };
    const review = { uid: 'u-1', resource, namespace: 'team', operation: 'CREATE', object: pod };
    const body = JSON.stringify({ apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', request: review });
    const ask = () =>
      new Promise<string>((resolve, reject) => {
        const place = { host: '127.0.0.1', port, servername: `hearth-webhook.${namespace}.svc`, path: '/mutate-pods' };
        const asked = request({ ...place, ca, method: 'POST', agent: false }, (response) => {
          let text = '';
          response.setEncoding('utf8').on('data', (part) => {
            text += part;
          });
          response.on('end', () => resolve(text));
        });
        asked.on('error', reject).end(body);
      });
    assert.deepEqual(JSON.parse(await ask()).response, { uid: 'u-1', allowed: true });
    const metrics = await (await fetch(`${operator.url}/metrics`)).text();
    assert.match(metrics, /hearth_webhook_reviews_total\{result="unchanged"\} 1/);
    assert.match(metrics, /hearth_gate_waiting_pods 0/);
    const ended = operator.end('SIGTERM');
    assert.deepEqual(JSON.parse(await ask()).response, { uid: 'u-1', allowed: true }, 'it serves while it ends');
    await ended;
    await assert.rejects(ask());
  });

  it('leave nothing of theirs behind before an uninstallation, and everything of users', async () => {
    const operator = await start();
    await datasetOf('model');
    await deployOperator();
    const environment = { KUBECONFIG: cleanupKubeconfig, POD_NAMESPACE: namespace };
    const cleaning = run(cleanup, [], { environment, timeoutMs: 330_000 });
    // As the controllers of a whole cluster do when there are to be no replicas.
    await fixture.expect('no replicas', kinds.Deployment, 'hearth-operator', ({ spec }) => spec?.replicas === 0);
    await operator.end('SIGTERM');
    // No operator would ever open its gate.
    const schedulingGates = [{ name: 'hearth.storage/preload' }, { name: 'example.org/kept' }];
    await fixture.api.create(kinds.Pod, {
      metadata: { name: 'gated', namespace: 'team' },
      spec: { schedulingGates, containers: [{ name: 'main', image: 'none' }] },
    });
    await fixture.api.delete(kinds.Pod, 'operator-0', namespace, { gracePeriodSeconds: 0 });
    const outcome = await cleaning;
    assert.equal(outcome.code, 0, outcome.stderr);
    await assertCleared();
    const dataset = await fixture.api.get(kinds.Dataset, 'model', 'team');
    assert.deepEqual(dataset?.metadata.finalizers, ['example.org/kept']);
    const gated = await fixture.api.get(kinds.Pod, 'gated', 'team');
    assert.deepEqual(gated?.spec?.schedulingGates, [{ name: 'example.org/kept' }]);
  });

  async function assertCleared(): Promise<void> {
    const left = Object.keys(await fixture.versions()).filter((key) => !/^Node n|kube-root/.test(key));
    assert.deepEqual(left, []);
    assert.equal(await fixture.api.get(kinds.Lease, 'hearth-operator', namespace), undefined);
    const node = await fixture.api.get(kinds.Node, 'n1');
    assert.deepEqual(
      Object.keys(node?.metadata?.labels ?? {}).filter((key) => key.includes('csi.hearth.storage')),
      [],
    );
    assert.ok(!node?.spec?.taints?.some(({ key }) => key === 'hearth.storage/agent-not-ready'));
    assert.ok(node?.spec?.taints?.some(({ key }) => key === 'other'));
  }
});
