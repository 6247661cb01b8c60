import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { silentLogger } from '@hearth/common';
import { until } from '@hearth/common/testing';
import { TestCluster } from '../testing/cluster.ts';
import { directorySource, fileRow } from '../testing/fake_origin.ts';
import { AgentMetrics, metricRows, metricsDocument } from './metrics.ts';
import { HealthServer } from './server.ts';

describe('health', () => {
  let cluster: TestCluster;
  let server: HealthServer;
  let url: string;
  const reasons: string[] = [];
  before(async () => {
    cluster = await TestCluster.start(['a'], [fileRow('x', 5n)]);
    const metrics = new AgentMetrics(cluster.agent('a'));
    server = new HealthServer({ reasons: () => reasons, metrics: () => metrics.scrape() }, silentLogger);
    url = `http://${await server.listen({ host: '127.0.0.1', port: 0 })}`;
  });
  after(async () => {
    await server.close();
    await cluster.close();
  });

  it('reports liveness, and readiness with the reasons', async () => {
    assert.equal(await (await fetch(`${url}/healthz`)).text(), 'ok\n');
    assert.equal((await fetch(`${url}/readyz`)).status, 200);
    reasons.push('the store is away');
    const answer = await fetch(`${url}/readyz`);
    assert.deepEqual([answer.status, await answer.text()], [503, 'the store is away\n']);
    assert.equal((await fetch(`${url}/healthz`)).status, 200);
    assert.equal((await fetch(`${url}/other`)).status, 404);
    assert.equal((await fetch(`${url}/healthz`, { method: 'POST' })).status, 405);
  });

  it('returns every metric of the table at each scrape', async () => {
    const request = { source: directorySource, include: [], exclude: [] };
    await cluster.agent('a').resolution.add('d', request, () => {}, AbortSignal.timeout(300_000));
    await until(() => cluster.agent('a').statistics.current?.residency.d !== undefined);
    for (let scrape = 0; scrape < 2; scrape++) {
      const answer = await fetch(`${url}/metrics`);
      assert.match(answer.headers.get('content-type') ?? '', /text\/plain/);
      const text = await answer.text();
      for (const { name } of metricRows) assert.ok(text.includes(`# HELP ${name} `), name);
      assert.ok(text.includes('hearth_datasets{state="Ready"} 1'), text);
      assert.ok(text.includes('hearth_dataset_resident_bytes{dataset="d"} 0'));
      assert.ok(text.includes('hearth_origin_bytes_total 0'));
    }
  });

  it('returns operations and leadership of writable volumes by name', async () => {
    const { writableVolumes, context } = cluster.agent('a');
    const limits = { kind: 'scratch', maxBytes: 0n, maxFiles: 0n };
    const { id } = await writableVolumes.create({ name: 'kv', ...limits }, context);
    await until(() => cluster.engine('a').leases.has(id));
    const operations = [{ name: 'lookup', count: 7n, failed: 1n, seconds: 0.5 }];
    const followers = [
      { node: 'b', listed: true, confirmed: 5n, lag: 3n, lagSeconds: 0.25, error: '' },
      { node: 'c', listed: false, confirmed: 0n, lag: 8n, lagSeconds: 9, error: 'c does not answer' },
    ];
    const evicted = { evictedFiles: 4n, evictedYoungFiles: 2n };
    cluster.engine('a').volumeFigures.set(id, { bytes: 9n, ...evicted, operations, followers, followersDropped: 6n });
    const text = await (await fetch(`${url}/metrics`)).text();
    assert.ok(text.includes('hearth_volume_leader{volume="kv"} 1'), text);
    assert.ok(text.includes('hearth_volume_bytes{volume="kv"} 9'));
    assert.ok(text.includes('hearth_volume_followers{volume="kv"} 1'));
    assert.ok(text.includes('hearth_volume_follower_lag_records{volume="kv",follower="b"} 3'));
    assert.ok(text.includes('hearth_volume_follower_lag_seconds{volume="kv",follower="c"} 9'));
    assert.ok(text.includes('hearth_volume_followers_dropped_total{volume="kv"} 6'));
    assert.ok(text.includes('hearth_volume_evicted_files_total{volume="kv"} 4'));
    assert.ok(text.includes('hearth_volume_evicted_young_files_total{volume="kv"} 2'));
    assert.ok(text.includes('hearth_volume_operations_total{volume="kv",operation="lookup"} 7'));
    assert.ok(text.includes('hearth_volume_operation_seconds_total{volume="kv",operation="lookup"} 0.5'));
  });

  it('names an address in use', async () => {
    const port = Number(new URL(url).port);
    const second = new HealthServer(
      { reasons: () => [], metrics: async () => ({ contentType: '', text: '' }) },
      silentLogger,
    );
    await assert.rejects(second.listen({ host: '127.0.0.1', port }), {
      code: 'InUse',
      message: /in use by another program/,
    });
  });

  it('matches docs/metrics.md', async () => {
    const document = await readFile(new URL('../../../docs/metrics.md', import.meta.url), 'utf8');
    assert.equal(document, metricsDocument(), 'run node-agent/src/health/write_document.ts');
  });
});
