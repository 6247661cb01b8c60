import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { ok, until } from '@hearth/common/testing';
import { releaseNamespace } from '@hearth/common/testing/kubernetes';
import { makeFiles } from '../../bench/data.ts';
import { oncePerRun } from '../../bench/once_per_run.ts';
import type { Measure } from '../../bench/result.ts';
import { clusterName, type Journey, ofClaim } from '../kubernetes/journey.ts';
import { mounts, PodReader } from './pod_reader.ts';

interface Capability {
  name: string;
  ready: boolean;
}

const name = 'preloaded';
const setOf = (part: string): string => `daemonset/hearth-${clusterName}-all-${part}`;

/** Gives the node memory for whole files: its holder takes it when it is replaced, and the next agent uses it. */
async function giveMemory(journey: Journey, bytes: number): Promise<void> {
  const [node] = journey.cluster.nodes;
  if (node === undefined) throw new Error('the cluster has no node');
  const inSystem = (...args: string[]) => ok(journey.cluster.kubectl(['-n', releaseNamespace, ...args]));
  const generation = async (part: string): Promise<number> =>
    Number(await inSystem('get', setOf(part), '-o', 'jsonpath={.metadata.generation}'));
  const before = { holder: await generation('holder'), agent: await generation('agent') };
  const [group] = (await journey.get('storagecluster', clusterName))?.spec.nodeGroups ?? [];
  const engine = { ...group.engine, memory: `${Math.ceil(bytes / 2 ** 20)}Mi` };
  const patch = JSON.stringify({ spec: { nodeGroups: [{ ...group, engine }] } });
  await ok(journey.cluster.kubectl(['patch', 'storagecluster', clusterName, '--type=merge', '-p', patch]));
  for (const part of ['holder', 'agent'] as const) {
    await until(`the ${part} is to have memory`, async () => (await generation(part)) > before[part]);
  }
  await inSystem('rollout', 'status', setOf('agent'), '--timeout=300s');
  for (const part of ['holder', 'agent']) {
    const [pod] = await journey.partOn(part, node);
    await inSystem('delete', `pod/${pod?.metadata.name}`);
    await until(`another ${part} is ready`, async () => {
      const [next] = await journey.partOn(part, node);
      const ready = next?.status?.conditions?.find((one: { type: string }) => one.type === 'Ready');
      return next?.metadata.name !== pod?.metadata.name && ready?.status === 'True';
    });
  }
  await until('the agent has memory for files', async () => {
    const cache = (await journey.get('nodecache', node.name))?.status;
    return cache?.capabilities?.some(({ name, ready }: Capability) => name === 'memory files' && ready);
  });
  await journey.ready(`storagecluster/${clusterName}`);
}

/** First read of a pod with a claim of a Dataset that a CachePreload has brought into the node's memory, against its second one. */
export async function preloadedPod(journey: Journey, bytes: number, programs: string): Promise<Measure> {
  await giveMemory(journey, bytes + 2 ** 28);
  const folder = join(journey.shared, name);
  mkdirSync(folder, { recursive: true });
  makeFiles(join(folder, 'large'), 1, bytes);
  const preload = {
    apiVersion: 'hearth.storage/v1alpha1',
    kind: 'CachePreload',
    metadata: { name, namespace: journey.namespace },
    spec: { datasets: [{ name }], placement: { allNodes: true }, readyWhen: 'Memory' },
  };
  await journey.apply(journey.dataset(name, { directory: { path: folder } }), preload, journey.claim(name));
  await journey.ready(`dataset/${name}`);
  await until('all of it is in memory', async () => {
    const [node] = (await journey.get('dataset', name))?.status?.residency ?? [];
    return node?.memoryBytes === bytes;
  });
  const reads = oncePerRun(async () => {
    const pod = new PodReader(journey, name);
    await pod.start(ofClaim(name), programs);
    await pod.checkMount(mounts.fuse);
    const first = await pod.measure('read', '/models');
    const second = await pod.measureAgain('read', '/models');
    await journey.remove(`pod/${name}`);
    return { first, second };
  });
  return {
    id: 'pod-preloaded-read',
    what: 'first read() in a pod, claim of a Dataset that was preloaded into memory, against its second one',
    unit: 'GiB/s',
    better: 'more',
    target: 0.9,
    sides: { value: async (run) => (await reads(run)).first, baseline: async (run) => (await reads(run)).second },
  };
}
