import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { bytesOf, MiB, root, run, skip, until } from '@hearth/common/testing';
import { Cluster } from '@hearth/common/testing/agents';
import { FileOrigin } from '@hearth/common/testing/origins';
import { dashboards } from './index.ts';
import { ServedOperatorMetrics } from './testing/operator_metrics.ts';
import { PrometheusServer } from './testing/prometheus_server.ts';
import { expand, panelsOf, seriesOfAlerts } from './testing/questions.ts';

/** Metrics of programs and devices that there are none of here. */
const elsewhere = new Set([
  'etcd_mvcc_db_total_size_in_bytes',
  'etcd_server_has_leader',
  'etcd_server_quota_backend_bytes',
  'hearth_operator_leader',
  'hearth_rdma_port_active',
]);
/** Labels that the chart's monitors and Prometheus give to every series. */
const ofEverySeries = new Set(['instance', 'job', 'node', 'storage_cluster', 'pod']);

describe('queries of dashboards and alerts, asked of a Prometheus that scrapes real agents', () => {
  let cluster: Cluster;
  let origin: FileOrigin;
  let operator: ServedOperatorMetrics;
  let prometheus: PrometheusServer;

  before(async function () {
    if ((await run('prometheus', ['--version'])).code !== 0) skip(this, 'prometheus is not installed');
    origin = await FileOrigin.start('127.0.0.1');
    operator = await ServedOperatorMetrics.start();
    const flags = ['--engine-rdma', 'auto', '--limits-origin-total', '1GiB'];
    cluster = await Cluster.start(['a', 'b'], { clusterName: 'main', flags });
    const agents = [...cluster.agents.values()].map(({ name, healthPort = 0 }) => ({
      port: healthPort,
      labels: { job: 'hearth-agent', node: name, storage_cluster: 'main' },
    }));
    // Nobody listens for the store, so Prometheus knows that target as one that is down.
    const store = { port: 1, labels: { job: 'hearth-etcd', node: 'a', storage_cluster: 'main' } };
    const targets = [{ port: operator.port, labels: { job: 'hearth-operator' } }, store, ...agents];
    prometheus = await PrometheusServer.start(targets);
    await cluster.allReady();
    const url = origin.add('model.bin', bytesOf(1, 8 * MiB));
    await cluster.json('a', 'dataset', 'add', 'model', url, '--allow-private');
    await cluster.json('a', 'warm', 'model', '--node', 'a');
    await cluster.json('a', 'volume', 'create', 'kv');
    assert.equal((await cluster.hearth('b', 'cat', 'model', 'model.bin')).code, 0);
    operator.gates.released({ reason: 'Warm', waited: [3], presentBytes: 0, fetchedBytes: 8 * MiB });
  });
  after(async () => {
    await prometheus?.[Symbol.asyncDispose]();
    await cluster?.close();
    await operator?.[Symbol.asyncDispose]();
    await origin?.[Symbol.asyncDispose]();
  });

  /** Waits until each query has a series; those that have none are in the message. */
  async function answered(queries: readonly string[]): Promise<void> {
    let silent = [...queries];
    await until(async () => {
      const answers = await Promise.all(silent.map((query) => prometheus.now(query)));
      silent = silent.filter((_, index) => answers[index]?.length === 0);
      return silent.length === 0;
    }).catch(() => assert.deepEqual(silent, [], 'queries without a series'));
  }

  for (const dashboard of dashboards) {
    it(`fill every panel of ${dashboard.title}`, async () => {
      const intervals = { interval: 60, rateInterval: 60 };
      // The other half of a pair in which one of both has a series.
      const isOfErrors = (expr: string) => expr.endsWith(' > 0');
      const queries = panelsOf(dashboard.json()).flatMap(({ targets }) => targets.map(({ expr }) => expr));
      await answered(queries.filter((expr) => !isOfErrors(expr)).map((expr) => expand(expr, intervals)));
      for (const { name, query } of dashboard.variables) {
        const [, metric = '', label = ''] = /^label_values\((\w+), (\w+)\)$/.exec(query) ?? [];
        const expected = name === 'node' ? ['a', 'b'] : ['main'];
        assert.deepEqual(await prometheus.labelValues(metric, label), expected);
      }
    });
  }

  it('count the bytes of two agents, of which one read from the origin and the other one as it could', async () => {
    const sum = async (query: string) => (await prometheus.now(`sum(${query})`))[0]?.samples[0]?.[1] ?? 0;
    await until('the origin is counted', async () => (await sum('hearth_origin_bytes_total')) >= 8 * MiB);
    // A busy agent leaves the other one to the origin, so bytes come from either.
    const both = 'hearth_origin_bytes_total + hearth_peer_received_bytes_total';
    await until('both agents are counted', async () => (await sum(both)) >= 16 * MiB);
  });

  it('give every alert the series and labels that its rule is tested with', async () => {
    const documented = readFileSync(join(root, 'docs/metrics.md'), 'utf8');
    const [here, there] = [seriesOfAlerts(), []] as [ReturnType<typeof seriesOfAlerts>, string[]];
    await answered(here.filter(({ metric }) => !elsewhere.has(metric)).map(({ query }) => query));
    for (const { alert, metric, labels } of here.filter(({ metric }) => elsewhere.has(metric))) {
      const row = documented.split('\n').find((line) => line.startsWith(`| \`${metric}\``));
      const known = new Set([
        ...ofEverySeries,
        ...(row
          ?.split('|')[3]
          ?.split(',')
          .map((label) => label.trim()) ?? []),
      ]);
      there.push(...labels.filter((label) => !known.has(label)).map((label) => `${alert}: ${metric}{${label}}`));
    }
    assert.deepEqual(there, []);
  });
});
