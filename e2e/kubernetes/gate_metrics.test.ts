import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { silentLogger } from '@hearth/common';
import { type KubernetesApi, kinds } from '@hearth/common/kubernetes';
import { until } from '@hearth/common/testing';
import { Cluster } from '@hearth/common/testing/agents';
import { apiOf, releaseNamespace } from '@hearth/common/testing/kubernetes';
import { FileOrigin } from '@hearth/common/testing/origins';
import { GateCluster, planOf, podObject, serverName } from '../../operator/src/gates/testing/gate_cluster.ts';
import { type RunningOperator, runOperator } from '../../operator/src/operator/index.ts';
import { plainPods } from '../../operator/src/storage_cluster/index.ts';

const mib = 1 << 20;
const nodes = { n1: '127.0.0.2', n2: '127.0.0.3' };
const agentLabels = {
  'app.kubernetes.io/name': 'hearth',
  'app.kubernetes.io/component': 'agent',
  'app.kubernetes.io/managed-by': 'hearth-operator',
  'hearth.storage/cluster': 'main',
  'hearth.storage/node-group': 'all',
};

describe('metrics of gates, as Prometheus reads them from an operator with real agents', () => {
  const ending = new AbortController();
  let cluster: GateCluster;
  let hearth: Cluster;
  let origin: FileOrigin;
  let api: KubernetesApi;
  let operator: RunningOperator;
  let ended: Promise<void> | undefined;

  before(async function () {
    cluster = await GateCluster.start(this);
    hearth = await Cluster.start([]);
    origin = await FileOrigin.start('127.0.0.1');
    for (const name of Object.keys(nodes)) await cluster.node(name);
    api = apiOf(await cluster.operatorKubeconfig());
    operator = await startOperator();
    await cluster.askAt(operator.webhookPort ?? 0);
    await startAgents();
    await dataset('model', 3 * mib, { mode: 'Wait' });
    await cluster.gates(podObject('probe', { datasets: ['model'] }));
  });
  after(async () => {
    ending.abort();
    await ended;
    api?.close();
    await cluster?.stop();
    await hearth?.close();
    await origin?.[Symbol.asyncDispose]();
  });

  function startOperator(): Promise<RunningOperator> {
    const { promise, resolve, reject } = Promise.withResolvers<RunningOperator>();
    ended = runOperator({
      api,
      environment: {
        namespace: releaseNamespace,
        image: 'registry/hearth:1',
        etcdImage: 'registry/etcd:3',
        imagePullPolicy: 'IfNotPresent',
        imagePullSecrets: [],
        pods: plainPods,
      },
      grant: {
        clusterRole: 'hearth-secrets',
        serviceAccount: { namespace: releaseNamespace, name: 'hearth-operator' },
      },
      identity: 'operator-0',
      instance: 'operator-0',
      http: { port: 0, host: '127.0.0.1' },
      webhook: { port: 0, host: 'localhost', serverName, lingerMs: 0 },
      logger: silentLogger,
      signal: ending.signal,
      onReady: resolve,
      election: { retrySeconds: 0.5 },
    }).catch(reject);
    return promise;
  }

  /** With the certificate that the operator has made for them, and pods that show it their addresses. */
  async function startAgents(): Promise<void> {
    const secret = await until("the agents' certificate", () =>
      api.get(kinds.Secret, 'hearth-main-agent', releaseNamespace),
    );
    const files = { certificate: 'tls.crt', key: 'tls.key', 'client-authorities': 'ca.crt' };
    const flags = Object.entries(files).flatMap(([flag, key]) => {
      const path = join(hearth.folder, key);
      writeFileSync(path, Buffer.from(secret.data?.[key] ?? '', 'base64'));
      return [`--control-${flag}`, path];
    });
    for (const [node, hostIP] of Object.entries(nodes)) {
      const cacheDirectories = `${join(hearth.folder, `cache-${node}`)}=1GiB:1MiB`;
      const control = [...flags, '--control-listen', `${hostIP}:7528`];
      await hearth.add(node, { clusterName: 'main', cacheDirectories, flags: control });
      const name = `agent-${node}`;
      await cluster.api.create(kinds.Pod, {
        metadata: { name, namespace: releaseNamespace, labels: agentLabels },
        spec: { nodeName: node, containers: [{ name: 'agent', image: 'none' }] },
      });
      const conditions = [{ type: 'Ready', status: 'True' }];
      const status = { phase: 'Running', hostIP, hostIPs: [{ ip: hostIP }], conditions };
      await cluster.api.patch(kinds.Pod, name, releaseNamespace, { status }, { kind: 'merge', subresource: 'status' });
    }
  }

  /** A Dataset of random bytes on the origin, when the agents know it. */
  async function dataset(name: string, bytes: number, gate: object): Promise<void> {
    const urls = [origin.add(`${name}/weights.bin`, randomBytes(bytes))];
    const metadata = { name, namespace: 'default' };
    await cluster.apply({
      apiVersion: 'hearth.storage/v1alpha1',
      kind: 'Dataset',
      metadata,
      spec: { source: { http: { urls } }, gate },
    });
    await until(`Dataset ${name} is Ready`, async () => {
      const found = await cluster.api.get(kinds.Dataset, name, 'default');
      return found?.status?.conditions?.find(({ type }) => type === 'Ready')?.status === 'True';
    });
  }

  /** Values by name and labels, as they are written: `hearth_gate_released_total{reason="Warm"}`. */
  async function scrape(): Promise<(sample: string) => number> {
    const answer = await fetch(`http://127.0.0.1:${operator.port}/metrics`);
    assert.equal(answer.status, 200);
    assert.match(answer.headers.get('content-type') ?? '', /^text\/plain/);
    const lines = (await answer.text()).split('\n').filter((line) => line !== '' && !line.startsWith('#'));
    const samples = new Map(
      lines.map((line) => {
        const space = line.lastIndexOf(' ');
        return [line.slice(0, space), Number(line.slice(space + 1))];
      }),
    );
    return (sample) => samples.get(sample) ?? 0;
  }

  /** Makes a pod, waits until its gate is open, and scrapes; also the most that it can have waited, in seconds. */
  async function run(name: string, dataset: string, annotations: Record<string, string> = {}) {
    const began = performance.now();
    await cluster.api.create(
      kinds.Pod,
      podObject(name, { datasets: [dataset] }, { metadata: { name, namespace: 'default', annotations } }),
    );
    const pod = await cluster.released(name);
    assert.notEqual(planOf(pod), '', 'it was gated');
    // Events are sent after the metrics.
    await cluster.event(name, /Gate(Warm|Prefer|TimedOut)/);
    // Creation is given in whole seconds, cut off.
    return { sample: await scrape(), maxSeconds: (performance.now() - began) / 1000 + 1 };
  }

  it('count the bytes that were brought, and the cold start that was avoided', async () => {
    const before = await scrape();
    assert.equal(before('hearth_gate_cold_starts_avoided_total'), 0);
    const { sample, maxSeconds } = await run('first', 'model');
    assert.equal(sample('hearth_gate_released_total{reason="Warm"}'), 1);
    assert.equal(sample('hearth_gate_cold_starts_avoided_total'), 1);
    assert.equal(sample('hearth_gate_brought_bytes_total'), 3 * mib);
    assert.equal(sample('hearth_gate_present_bytes_total'), 0);
    assert.equal(sample('hearth_gate_wait_seconds_count{reason="Warm"}'), 1);
    const waited = sample('hearth_gate_wait_seconds_sum{reason="Warm"}');
    assert.ok(waited > 0 && waited <= maxSeconds, `${waited} of ${maxSeconds} s`);
    assert.equal(sample('hearth_gate_wait_seconds_bucket{le="7200",reason="Warm"}'), 1);
    assert.equal(sample('hearth_webhook_reviews_total{result="gated"}') >= 1, true);
    assert.equal(origin.sentBytes >= 3 * mib, true);
  });

  it('count what was there for the next pod as saved', async () => {
    // Agents report what they have every second; a plan is made with what was reported.
    await until('the agents tell that they have it', async () => {
      return (await cluster.api.get(kinds.Dataset, 'model', 'default'))?.status?.percent === 100;
    });
    const sent = origin.sentBytes;
    const { sample } = await run('second', 'model');
    assert.equal(sample('hearth_gate_released_total{reason="Warm"}'), 2);
    assert.equal(sample('hearth_gate_cold_starts_avoided_total'), 2);
    assert.equal(sample('hearth_gate_present_bytes_total'), 3 * mib, 'it was sent to the node that has them');
    assert.equal(sample('hearth_gate_brought_bytes_total'), 3 * mib);
    assert.equal(origin.sentBytes, sent, 'and that is what was saved');
  });

  it('count no cold start as avoided where a pod did not wait', async () => {
    const { sample } = await run('hasty', 'model', { 'hearth.storage/gate': 'Prefer' });
    assert.equal(sample('hearth_gate_released_total{reason="Prefer"}'), 1);
    assert.equal(sample('hearth_gate_present_bytes_total'), 6 * mib);
    assert.equal(sample('hearth_gate_cold_starts_avoided_total'), 2);
    assert.equal(sample('hearth_gate_brought_bytes_total'), 3 * mib);
  });

  it('report a pod that waits, and count it as timed out when its gate opens', async () => {
    // It is scraped meanwhile, on a busy machine, too.
    const timeoutSeconds = 15;
    await dataset('slow', 40 * mib, { mode: 'Wait', timeout: `${timeoutSeconds}s` });
    origin.bytesPerSecond = mib / 4;
    const released = run('late', 'slow');
    await until('it waits', async () => (await scrape())('hearth_gate_waiting_pods') === 1);
    const { sample, maxSeconds } = await released;
    assert.equal(sample('hearth_gate_released_total{reason="TimedOut"}'), 1);
    assert.equal(sample('hearth_gate_wait_seconds_count{reason="TimedOut"}'), 1);
    const waited = sample('hearth_gate_wait_seconds_sum{reason="TimedOut"}');
    assert.ok(waited >= timeoutSeconds && waited <= maxSeconds, `${waited} of ${maxSeconds} s`);
    assert.equal(sample('hearth_gate_waiting_pods'), 0);
    assert.equal(sample('hearth_gate_cold_starts_avoided_total'), 2);
    assert.equal(sample('hearth_gate_brought_bytes_total'), 3 * mib);
    assert.equal(sample('hearth_gate_present_bytes_total'), 6 * mib);
  });
});
