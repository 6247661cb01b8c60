import assert from 'node:assert/strict';
import { kinds, type Pod } from '@hearth/common/kubernetes';
import { needsPrograms } from '@hearth/common/testing';
import { SimulatedCluster } from '@hearth/common/testing/kubernetes';
import fc from 'fast-check';
import { releasePatch } from '../gates/release.ts';
import {
  type GroupPlan,
  type PlanInput,
  type PlannedNode,
  type PodGroup,
  plan,
  plannedNode,
  podTemplate,
  type RunningPod,
  runningPod,
} from './index.ts';
import { refusedNow } from './testing/naive_filter.ts';
import { gatedObjects, nodeObject, runningObject } from './testing/planned_objects.ts';
import { randomCluster } from './testing/random_cluster.ts';
import { podOn } from './testing/replay.ts';

/** Every run tries the same clusters, unless it is given another seed. */
const seed = Number(process.env.HEARTH_SEED || 20_261_121);
const clusters = 50;

type Agents = Map<string, NonNullable<PlannedNode['agent']>>;

describe('planner and the real scheduler', () => {
  let cluster: SimulatedCluster;

  before(async function () {
    cluster = await needsPrograms(this, () => SimulatedCluster.start());
  });
  after(() => cluster?.[Symbol.asyncDispose]());

  it(`agree in ${clusters} random clusters`, async () => {
    const seen = new Map<string, number>();
    for (const [index, given] of fc.sample(randomCluster({ plain: true }), { seed, numRuns: clusters }).entries()) {
      try {
        await tryCluster(given, (what, count) => seen.set(what, (seen.get(what) ?? 0) + count));
      } catch (error) {
        console.log(`cluster ${index}: ${JSON.stringify({ ...given, datasets: [...given.datasets] })}`);
        throw error;
      }
    }
    console.log(`      ${[...seen].map(([what, count]) => `${what}: ${count}`).join(', ')}`);
    const enough = { 'pods as planned': 80, 'pods with required affinity': 30, 'pods that no node takes': 30 };
    for (const [what, count] of Object.entries(enough)) assert.ok((seen.get(what) ?? 0) >= count, what);
  });

  /** Releases the groups of a cluster one after the other, each by the plan of that moment. */
  async function tryCluster(given: PlanInput, see: (what: string, count: number) => void): Promise<void> {
    await cluster.createNodes(given.nodes.map(nodeObject));
    await cluster.createPods(given.running.map((pod, index) => runningObject(`running-${index}`, pod)));
    await cluster.deletePods(given.running.flatMap(({ deleting }, index) => (deleting ? [`running-${index}`] : [])));
    await cluster.createPods(given.groups.flatMap(gatedObjects));
    const agents: Agents = new Map(given.nodes.flatMap(({ name, agent }) => (agent ? [[name, agent]] : [])));
    let groups = given.groups;
    assertSeenAsGiven(await observe(given, agents, groups), given);
    await cluster.schedulerKnowsAll();
    while (groups.length > 0) {
      const input = await observe(given, agents, groups);
      const plans = plan(input);
      const [[key, found]] = plans as unknown as [[string, GroupPlan]];
      const group = input.groups.find((one) => one.key === key) as PodGroup;
      await release(group, found);
      const pods = await cluster.settled(group.pods);
      await check(input, group, found, pods, see);
      bring(agents, input, group, found);
      groups = groups.filter((one) => one.key !== key).map((one) => ({ ...one, planned: nodesOf(plans.get(one.key)) }));
    }
    await cluster.clear();
  }

  /** The input that the operator would give the planner now. */
  async function observe(given: PlanInput, agents: Agents, groups: readonly PodGroup[]): Promise<PlanInput> {
    const [nodes, pods] = await Promise.all([cluster.nodes(), cluster.pods()]);
    const template = (name: string) => {
      const pod = pods.find(({ metadata }) => metadata?.name === name) as Pod;
      return podTemplate(pod, { foreignVolumes: false });
    };
    return {
      nodes: nodes.map((node) => {
        const known = plannedNode(node);
        const agent = agents.get(known.name);
        return agent === undefined ? known : { ...known, agent };
      }),
      running: pods.flatMap((pod) => runningPod(pod) ?? []),
      groups: groups.map((group) => ({ ...group, ...template(group.pods[0] as string) })),
      datasets: given.datasets,
    };
  }

  async function release(group: PodGroup, found: GroupPlan): Promise<void> {
    const pods = (await cluster.pods()).filter(({ metadata }) => group.pods.includes(metadata?.name ?? ''));
    const affinity = found.kind === 'warm' ? found.affinity : undefined;
    await Promise.all(
      pods.map((pod) =>
        cluster.api.patch(kinds.Pod, pod.metadata?.name ?? '', 'default', releasePatch(pod, affinity), {
          kind: 'merge',
        }),
      ),
    );
  }

  async function check(
    input: PlanInput,
    group: PodGroup,
    found: GroupPlan,
    pods: readonly Pod[],
    see: (what: string, count: number) => void,
  ): Promise<void> {
    const bound = pods.filter(({ spec }) => spec?.nodeName !== undefined);
    const pending = pods.filter(({ spec }) => spec?.nodeName === undefined);
    const where = bound.map(({ spec }) => spec?.nodeName as string);
    const world = { nodes: input.nodes, placed: [...input.running, ...where.map((node) => podOn(group, node))] };
    const what = () =>
      `${JSON.stringify(found)} ${JSON.stringify(found.kind === 'warm' && [...found.assignment])} ${where}`;

    // Without the affinity of the plan no node would take the pods that are left either.
    if (pending.length > 0) {
      const takers = input.nodes.filter((node) => refusedNow(group, node, world) === undefined);
      assert.deepEqual(
        takers.map(({ name }) => name),
        [],
        `${group.key} could run there: ${what()}`,
      );
    }
    if (found.kind === 'release') {
      if (found.reason === 'NoFeasibleNode') assert.deepEqual(where, [], what());
    } else {
      const planned = where.filter((node) => nodesOf(found).includes(node) || holdsAll(input, group, node));
      assert.ok(bound.length >= found.assignment.size, what());
      assert.ok(planned.length >= found.assignment.size, what());
      see('pods as planned', planned.length);
      see('pods elsewhere, as the planned nodes are full', where.length - planned.length);
      if (found.affinity.kind === 'Required') see('pods with required affinity', bound.length);
    }
    see('pods that no node takes', pending.length);
    // They would take the places of those that come after them as soon as there are any.
    await cluster.deletePods(pending.map(({ metadata }) => metadata?.name ?? ''));
  }
});

function nodesOf(found: GroupPlan | undefined): string[] {
  return found?.kind === 'warm' ? found.nodes.map(({ node }) => node) : [];
}

function holdsAll({ nodes, datasets }: PlanInput, group: PodGroup, name: string): boolean {
  const agent = nodes.find((node) => node.name === name)?.agent;
  return (
    agent !== undefined &&
    group.datasets.every((key) => (agent.residentBytes[key] ?? 0) >= (datasets.get(key)?.bytes ?? 0))
  );
}

/** Stands in for the executor: brings and pins the bytes. */
function bring(agents: Agents, { datasets }: PlanInput, group: PodGroup, found: GroupPlan): void {
  for (const node of nodesOf(found)) {
    const {
      availableBytes,
      residentBytes,
      pinnedBytes = residentBytes,
    } = agents.get(node) as NonNullable<PlannedNode['agent']>;
    const all = Object.fromEntries(group.datasets.map((key) => [key, datasets.get(key)?.bytes ?? 0]));
    const taken = Object.entries(all).reduce(
      (sum, [key, bytes]) => sum + bytes - Math.min(bytes, pinnedBytes[key] ?? 0),
      0,
    );
    agents.set(node, {
      availableBytes: availableBytes - taken,
      residentBytes: { ...residentBytes, ...all },
      pinnedBytes: { ...pinnedBytes, ...all },
    });
  }
}

/** The adapters make of the objects what these were made from. */
function assertSeenAsGiven(seen: PlanInput, given: PlanInput): void {
  assert.deepEqual(plain(byName(seen.nodes)), plain(byName(given.nodes)));
  const running = (pods: readonly RunningPod[]) =>
    pods
      .map((pod) => JSON.stringify(plain({ ...pod, lasting: pod.lasting ?? false, repels: pod.repels ?? [] })))
      .sort();
  assert.deepEqual(running(seen.running), running(given.running));
  const asked = (groups: readonly PodGroup[]) =>
    groups.map(({ requests, hostPorts, nodeSelector, requiredTerms, unmodelled }) =>
      plain({ requests, hostPorts, nodeSelector, requiredTerms, unmodelled }),
    );
  assert.deepEqual(asked(seen.groups), asked(given.groups));
}

function byName(nodes: readonly PlannedNode[]): PlannedNode[] {
  return [...nodes].sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** With keys in one order, and without what is undefined. */
function plain(value: unknown): unknown {
  const sorted = (_: string, one: unknown) =>
    one !== null && typeof one === 'object' && !Array.isArray(one)
      ? Object.fromEntries(Object.entries(one).sort(([a], [b]) => (a < b ? -1 : 1)))
      : one;
  return JSON.parse(JSON.stringify(value, sorted));
}
