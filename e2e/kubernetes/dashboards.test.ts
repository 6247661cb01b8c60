import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { kinds } from '@hearth/common/kubernetes';
import { Chromium, MiB, needsMounts, ok, output, root, run, skip } from '@hearth/common/testing';
import { dashboards } from '../../monitoring/index.ts';
import { dashboardPage } from '../../monitoring/testing/dashboard_page.ts';
import { PrometheusServer } from '../../monitoring/testing/prometheus_server.ts';
import { seriesOfAlerts } from '../../monitoring/testing/questions.ts';
import { podObject } from '../../operator/src/gates/testing/gate_cluster.ts';
import { GatedAgents } from './gated_agents.ts';

const pngSignature = '89504e470d0a1a0a';

/** Leaves pages and pictures in build/dashboards. */
describe('dashboards of an operator and agents under load, in Chromium', () => {
  const pictures = join(root, 'build/dashboards');
  let started: GatedAgents;
  let prometheus: PrometheusServer;
  let chromium: Chromium;
  let began: number;

  before(async function () {
    needsMounts(this);
    if (!(await Chromium.isInstalled())) skip(this, 'chromium is not installed');
    if ((await run('prometheus', ['--version'])).code !== 0) skip(this, 'prometheus is not installed');
    chromium = new Chromium();
    mkdirSync(pictures, { recursive: true });
    const agentFlags = ['--engine-rdma', 'auto', '--limits-origin-total', `${12 * MiB}`];
    started = await GatedAgents.start(this, { holder: true, agentFlags });
    const agents = [...started.agents.agents.values()].map(({ name, healthPort = 0 }) => ({
      port: healthPort,
      labels: { job: 'hearth-agent', node: name, storage_cluster: 'main' },
    }));
    prometheus = await PrometheusServer.start([
      { port: started.operatorPort, labels: { job: 'hearth-operator', pod: 'hearth-operator-0' } },
      { port: started.cluster.server.etcdPort, labels: { job: 'hearth-etcd', node: 'n1', storage_cluster: 'main' } },
      ...agents,
    ]);
    began = Math.floor(Date.now() / 1000);
    await load();
  });
  after(async () => {
    await prometheus?.[Symbol.asyncDispose]();
    await chromium?.remove();
    await started?.[Symbol.asyncDispose]();
  });

  /** Pods of growing Datasets wait for their bytes; then a program on each node reads the Dataset through a mount. */
  async function load(): Promise<void> {
    const { cluster, agents } = started;
    for (const node of [...agents.agents.keys()].slice(0, 1)) await ok(agents.hearth(node, 'volume', 'create', 'kv'));
    for (const round of [1, 2, 3, 4, 5, 6]) {
      const name = `model-${round}`;
      await started.dataset(name, round * 16 * MiB, { mode: 'Wait' });
      await cluster.api.create(kinds.Pod, podObject(`engine-${round}`, { datasets: [name] }));
      await cluster.released(`engine-${round}`);
      for (const node of agents.agents.keys()) {
        const folder = agents.mountPoint(`${node}-${name}`);
        await ok(agents.hearth(node, 'mount', `default.${name}`, folder, '--data-path', 'fuse'));
        await output('cp', [join(folder, 'weights.bin'), '/dev/null']);
      }
    }
  }

  for (const dashboard of dashboards) {
    it(`draw every panel of ${dashboard.title}`, async () => {
      const end = Math.floor(Date.now() / 1000);
      const html = await dashboardPage(dashboard, prometheus, { start: began, end, barSeconds: 10 });
      const page = join(pictures, `${dashboard.uid}.html`);
      writeFileSync(page, html);
      const url = pathToFileURL(page).href;
      const { html: dom } = await chromium.dom(url);
      const panels = [...dom.matchAll(/<section [^>]*data-series="(\d+)" data-samples="(\d+)"[^>]*><h3>([^<]*)/g)];
      assert.match(dom, new RegExp(`data-drawn="${panels.length}"`));
      const empty = panels.filter(([, series, samples]) => series === '0' || samples === '0');
      assert.deepEqual(
        empty.map(([, , , title]) => title),
        [],
      );
      const file = join(pictures, `${dashboard.uid}.png`);
      await chromium.screenshot(url, file, { width: 1480, height: 860 });
      assert.equal(readFileSync(file).subarray(0, 8).toString('hex'), pngSignature);
    });
  }

  it('are beside alerts whose series there are', async () => {
    // There is no RDMA device.
    const there = seriesOfAlerts().filter(({ metric }) => metric !== 'hearth_rdma_port_active');
    const silent = async () => {
      const answers = await Promise.all(there.map(({ query }) => prometheus.now(query)));
      return there.filter((_, index) => answers[index]?.length === 0).map(({ query }) => query);
    };
    assert.deepEqual(await silent(), []);
  });
});
