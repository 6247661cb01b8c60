import { kinds } from '@hearth/common/kubernetes';
import { elapse, until } from '@hearth/common/testing';
import { percentile } from './counters.ts';
import type { GatedPods } from './gated_pods.ts';
import type { Row } from './measure.ts';
import type { Stage } from './stage.ts';

const namespace = 'default';
/** Until a new leader has settled, ms. */
const settleMs = 60_000;

/**
 * Kills the leader while pods come, just after a user has deleted CachePreloads whose bytes were still on their way, and
 * looks when gates open again and whether these come back.
 */
export async function failOver(stage: Stage, pods: GatedPods, cold: readonly string[]): Promise<Row[]> {
  const { api } = stage.server;
  const plans = await Promise.all(cold.map((dataset) => pods.add(`waits-${dataset}`, [dataset])));
  const existing = async () => {
    const { items } = await api.list(kinds.CachePreload, { namespace });
    return new Map(items.map(({ metadata }) => [metadata.name, metadata]));
  };
  await until('the bytes of cold Datasets are on their way', async () => {
    const all = await existing();
    return plans.every((plan) => all.has(plan));
  });
  const deleted = await existing();
  await Promise.all(plans.map((plan) => api.delete(kinds.CachePreload, plan, namespace)));
  const leader = await stage.leader();
  const killed = performance.now();
  await stage.kill(leader);
  const [next] = stage.replicas;
  await next?.leads();
  const led = performance.now();
  const first = await until('gates open again', () => pods.openings.find((at) => at > led));
  await elapse(settleMs, 'a leader that makes plans again does so within this time');
  const now = await existing();
  const again = plans.filter((plan) => now.has(plan) && now.get(plan)?.uid !== deleted.get(plan)?.uid);
  const waits = pods.opened(killed, killed + settleMs / 2).map(({ created, opened }) => (opened - created) / 1000);
  return [
    { what: 'leader killed: another leads', value: (led - killed) / 1000, unit: 's' },
    { what: 'leader killed: gates open again', value: (first - killed) / 1000, unit: 's', limit: 5 },
    { what: 'leader killed: pod created to gate open, p95', value: percentile(waits, 95), unit: 's' },
    { what: 'preloads that users had deleted and that came back', value: again.length, unit: '', limit: 0 },
  ];
}
