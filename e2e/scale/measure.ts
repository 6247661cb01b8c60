import { elapse } from '@hearth/common/testing';
import { cpuSeconds, etcdCounters, peakMiB, percentile } from './counters.ts';
import type { GatedPods } from './gated_pods.ts';
import type { Stage } from './stage.ts';

export interface Row {
  what: string;
  value: number;
  unit: string;
  /** Absent: a figure without a bound. */
  limit?: number;
}

/** The share of nodes that goes in an hour, and comes again under another name. */
const churnAnHour = 0.05;
/** Until what the Datasets' creation started has ended, ms. */
const settleMs = 30_000;
/** Pods that were created later than this before the end are not looked at, ms. */
const openMs = 5_000;

/** Figures of the operator, the store and gates while pods come and nodes change. */
export async function steadyState(stage: Stage, pods: GatedPods, seconds: number): Promise<Row[]> {
  await elapse(settleMs, 'the measurement begins in a steady state');
  const leader = await stage.leader();
  await leader.sample();
  const stores = { hearth: stage.store.endpoint, kubernetes: `127.0.0.1:${stage.server.server.etcdPort}` };
  const [began, before] = [performance.now(), await etcdCounters(stores.hearth)];
  const clusterBefore = await etcdCounters(stores.kubernetes);
  const cpuBefore = cpuSeconds(leader.pid);
  const agentsBefore = stage.hosts.map(({ pid }) => cpuSeconds(pid));
  await churn(stage, seconds);
  const ended = performance.now();
  const [cpu, sample] = [cpuSeconds(leader.pid) - cpuBefore, await leader.sample()];
  const agents = stage.hosts.map(({ pid }, index) => cpuSeconds(pid) - (agentsBefore[index] ?? 0));
  const [after, clusterAfter] = [await etcdCounters(stores.hearth), await etcdCounters(stores.kubernetes)];
  const took = (ended - began) / 1000;
  const waits = pods.opened(began, ended - openMs).map(({ created, opened }) => Math.max(0, opened - created) / 1000);
  const written = (after.bytesWritten - before.bytesWritten) / took;
  const calls = Object.entries(after.requests).map(
    ([call, all]) => [call, (all - (before.requests[call] ?? 0)) / took] as const,
  );
  return [
    { what: "Hearth's etcd: bytes written", value: written / 1000, unit: 'KB/s', limit: 100 },
    {
      // Nothing is freed in this sum, so compaction can only make it less.
      what: "Hearth's etcd: database, and what an hour writes",
      value: (after.databaseBytes + written * 3600) / 1e6,
      unit: 'MB',
      limit: 200,
    },
    { what: "Hearth's etcd: database now", value: after.databaseBytes / 1e6, unit: 'MB' },
    ...calls.map(([call, rate]) => ({ what: `Hearth's etcd: ${call}`, value: rate, unit: '1/s' })),
    {
      what: "Kubernetes' etcd: bytes written, by all",
      value: (clusterAfter.bytesWritten - clusterBefore.bytesWritten) / took / 1000,
      unit: 'KB/s',
    },
    { what: 'operator: memory, at most', value: peakMiB(leader.pid), unit: 'MiB', limit: 1024 },
    { what: 'operator: processor time', value: cpu / took, unit: 'cores', limit: 0.5 },
    { what: `operator: longest reconcile (${sample.longest.controller})`, value: sample.longest.seconds, unit: 's' },
    { what: 'operator: longest pause of its event loop', value: sample.longestPauseSeconds, unit: 's' },
    { what: 'agents, all together: processor time', value: sum(agents) / took, unit: 'cores' },
    {
      what: 'agents, all together: memory',
      value: sum(stage.hosts.map(({ pid }) => peakMiB(pid))) / 1024,
      unit: 'GiB',
    },
    { what: 'pods measured', value: waits.length, unit: '' },
    { what: 'pod created to gate open, p50', value: percentile(waits, 50), unit: 's' },
    { what: 'pod created to gate open, p95', value: percentile(waits, 95), unit: 's', limit: 2 },
    { what: 'pods that still wait', value: pods.waiting(began, ended - openMs), unit: '' },
  ];
}

const sum = (values: readonly number[]) => values.reduce((a, b) => a + b, 0);

/** Nodes go and come for so long. */
async function churn(stage: Stage, seconds: number): Promise<void> {
  const changes = Math.floor((stage.nodes.names.length * churnAnHour * seconds) / 3600);
  const pauseMs = (seconds * 1000) / (changes + 1);
  for (let change = 0; change < changes; change++) {
    await elapse(pauseMs, 'nodes change at a rate');
    await stage.nodes.leave(stage.nodes.names[0] as string);
    await stage.nodes.join(1);
  }
  await elapse(pauseMs, 'nodes change at a rate');
}
