import assert from 'node:assert/strict';
import { kinds } from '@hearth/common/kubernetes';
import { until } from '@hearth/common/testing';
import type { FileOrigin } from '@hearth/common/testing/origins';
import { type GateCluster, planOf, podObject } from '../../operator/src/gates/testing/gate_cluster.ts';
import { GatedAgents } from './gated_agents.ts';

const mib = 1 << 20;

describe('metrics of gates, as Prometheus reads them from an operator with real agents', () => {
  let started: GatedAgents;
  let cluster: GateCluster;
  let origin: FileOrigin;

  before(async function () {
    started = await GatedAgents.start(this);
    ({ cluster, origin } = started);
  });
  after(() => started?.[Symbol.asyncDispose]());

  /** Values by name and labels, as they are written: `hearth_gate_released_total{reason="Warm"}`. */
  async function scrape(): Promise<(sample: string) => number> {
    const answer = await fetch(`http://127.0.0.1:${started.operatorPort}/metrics`);
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
    await started.dataset('slow', 40 * mib, { mode: 'Wait', timeout: `${timeoutSeconds}s` });
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
