import { isDeepStrictEqual } from 'node:util';
import type { Logger } from '@hearth/common';
import { type Clock, systemClock } from '@hearth/common/kubernetes';
import type { CachePreload } from '@hearth/common/resources';
import type { Agents } from '../agents/index.ts';
import type { Source } from '../kubernetes/index.ts';
import type { GroupPlan, PlanInput, RunningPod } from '../planner/index.ts';
import { plannedNodesOf } from '../preload/index.ts';
import { type Plan, type PlanBytes, planOfParts } from './plan.ts';
import { type BareNode, plannedNodes } from './plan_world.ts';
import type { UnplannedGroup } from './pod_group.ts';
import type { PodView } from './pod_view.ts';

export interface PlanningQueueOptions {
  plan: (input: PlanInput) => ReadonlyMap<string, GroupPlan>;
  nodes: Source<{ planned: BareNode }>;
  pods: Source<PodView>;
  agents: Agents;
  preloads: Pick<Source<CachePreload>, 'get'>;
  changed: (key: string) => void;
  logger: Logger;
  clock?: Clock;
}

export interface Wanted {
  cluster: string;
  parts: readonly UnplannedGroup[];
  datasets: ReadonlyMap<string, number>;
}

interface WantedGroup extends Wanted {
  key: string;
  since: number;
  plan: Plan | undefined;
}

interface Group {
  wanted?: WantedGroup | undefined;
  lastPlan?: Plan;
  /** By node: bytes that the first plan with the node found, and whether `takeBytes` has reported them. */
  readonly bytes: Map<string, PlanBytes & { taken: boolean }>;
}

/** The delay after a request, which plans pods that arrive together in one run, ms. */
const soonMs = 30;
/** The delay after other changes while a request is pending, ms. */
const laterMs = 1_000;
/** Planning takes at most one in `share` of the time. */
const share = 4;
/** How long groups wait for agents that have never answered, ms. */
const agentsTimeoutMs = 30_000;

/** Plans all requesting groups together, and again after changes. Plans live for a leader's term. */
export class PlanningQueue {
  readonly #options: PlanningQueueOptions;
  readonly #clock: Clock;
  readonly #groups = new Map<string, Group>();
  /** Released pods that no scheduler has bound yet, by key. */
  readonly #expected = new Map<string, RunningPod>();
  #timer: { at: number; cancel: () => void } | undefined;
  #notBefore = 0;

  constructor(options: PlanningQueueOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
  }

  /** Subscribes to the inputs of plans. Returns the function that ends it. */
  start(): () => void {
    const { nodes, pods, agents } = this.#options;
    const later = () => {
      if ([...this.#groups.values()].some(({ wanted }) => wanted !== undefined)) this.#schedule(laterMs);
    };
    const stops = [
      nodes.onChange(later),
      agents.onChange(later),
      pods.onChange((key, before, after) => {
        if (after === undefined || after.running !== undefined) this.#expected.delete(key);
        if (before?.running !== after?.running) later();
      }),
    ];
    return () => {
      for (const stop of stops) stop();
      this.#timer?.cancel();
      this.#timer = undefined;
      this.#notBefore = Number.POSITIVE_INFINITY;
    };
  }

  /** A plan for some of the pods stays until the new plan exists, so that early pods do not wait for late ones. */
  want(key: string, wanted: Wanted): void {
    const group: Group = this.#groups.get(key) ?? { bytes: new Map() };
    if (group.wanted !== undefined && isSame(group.wanted, wanted)) return;
    const { since = this.#clock.now() } = group.wanted ?? {};
    group.wanted = { ...wanted, key, since, plan: this.planFor(key, wanted) };
    this.#groups.set(key, group);
    for (const { namespace, pods } of wanted.parts) {
      for (const name of pods) this.#expected.delete(`${namespace}/${name}`);
    }
    this.#schedule(soonMs);
  }

  /** Reserves the planned room of released pods until they run. */
  released(key: string, namespace: string, pods: readonly string[]): void {
    const plan = this.planOf(key);
    this.unwant(key);
    if (plan?.kind !== 'warm') return;
    for (const pod of pods) {
      const running = plan.expected.get(pod);
      if (running !== undefined) this.#expected.set(`${namespace}/${pod}`, running);
    }
  }

  unwant(key: string): void {
    const group = this.#groups.get(key);
    if (group !== undefined) group.wanted = undefined;
  }

  forget(key: string): void {
    this.#groups.delete(key);
  }

  /** The present plan for these pods, if the group requests them; undefined while there is none. Pure. */
  planFor(key: string, wanted: Wanted): Plan | undefined {
    const known = this.#groups.get(key)?.wanted;
    if (known === undefined) return undefined;
    return isSame(known, wanted) || differsInPods(known, wanted) ? known.plan : undefined;
  }

  planOf(key: string): Plan | undefined {
    return this.#groups.get(key)?.wanted?.plan;
  }

  lastPlan(key: string): Plan | undefined {
    return this.#groups.get(key)?.lastPlan;
  }

  /** Bytes that the first plan with each node found there. Reports each node once. */
  takeBytes(key: string): PlanBytes {
    const sum: PlanBytes = { presentBytes: 0, missingBytes: 0 };
    const { lastPlan, bytes } = this.#groups.get(key) ?? {};
    if (lastPlan?.kind !== 'warm') return sum;
    for (const node of lastPlan.nodes) {
      const found = bytes?.get(node);
      if (found === undefined || found.taken) continue;
      found.taken = true;
      sum.presentBytes += found.presentBytes;
      sum.missingBytes += found.missingBytes;
    }
    return sum;
  }

  #schedule(ms: number): void {
    const at = Math.max(this.#clock.now() + ms, this.#notBefore);
    if (at === Number.POSITIVE_INFINITY) return;
    if (this.#timer !== undefined && this.#timer.at <= at) return;
    this.#timer?.cancel();
    const cancel = this.#clock.schedule(at - this.#clock.now(), () => {
      this.#timer = undefined;
      this.#run();
    });
    this.#timer = { at, cancel };
  }

  #run(): void {
    const began = this.#clock.now();
    const changed: string[] = [];
    const { running, clusters } = this.#world();
    for (const [cluster, groups] of clusters) {
      if (this.#waitsForAgents(cluster, groups)) continue;
      changed.push(...this.#planned(cluster, groups, running));
    }
    this.#notBefore = this.#clock.now() + (this.#clock.now() - began) * (share - 1);
    for (const key of changed) this.#options.changed(key);
  }

  /** If planning fails, which is a defect, plans each group alone, so that one group blocks no other. */
  #planned(cluster: string, groups: readonly WantedGroup[], running: RunningPod[]): string[] {
    try {
      return this.#planCluster(cluster, groups, running);
    } catch (error) {
      if (groups.length > 1) return groups.flatMap((group) => this.#planned(cluster, [group], running));
      this.#options.logger.error('failed to plan a group of pods', { cluster, group: groups[0]?.key, error });
      return [];
    }
  }

  /** Running and expected pods, and the groups of each StorageCluster in order of arrival. */
  #world(): { running: RunningPod[]; clusters: Map<string, WantedGroup[]> } {
    const running = [...this.#expected.values()];
    for (const view of this.#options.pods.all()) if (view.running !== undefined) running.push(view.running);
    const groups = [...this.#groups.values()].flatMap(({ wanted }) => wanted ?? []);
    groups.sort((a, b) => a.since - b.since || (a.key < b.key ? -1 : 1));
    return { running, clusters: Map.groupBy(groups, ({ cluster }) => cluster) };
  }

  #waitsForAgents(cluster: string, groups: readonly WantedGroup[]): boolean {
    if (this.#options.agents.get(cluster)?.status !== undefined) return false;
    const oldest = Math.min(...groups.map(({ since }) => since));
    const left = oldest + agentsTimeoutMs - this.#clock.now();
    if (left > 0) this.#schedule(left);
    return left > 0;
  }

  /** Returns the keys of groups whose plan changed. Adds planned pods to `running`. */
  #planCluster(cluster: string, groups: readonly WantedGroup[], running: RunningPod[]): string[] {
    const { nodes, agents, plan } = this.#options;
    const datasets = new Map(groups.flatMap((group) => [...group.datasets]));
    const bare = nodes.all().map(({ planned }) => planned);
    const plans = plan({
      nodes: plannedNodes(bare, agents.get(cluster)?.status, datasets.keys()),
      running: [...running],
      groups: groups.flatMap(({ key, parts }) => parts.map((part) => ({ ...part, planned: this.#plannedNodes(key) }))),
      datasets: new Map([...datasets].map(([key, bytes]) => [key, { bytes }])),
    });
    const changed: string[] = [];
    for (const wanted of groups) {
      const made = planOfParts(wanted.parts, plans, (dataset) => datasets.get(dataset) ?? 0);
      const group = this.#groups.get(wanted.key);
      if (made === undefined || group === undefined) continue;
      if (made.kind === 'warm') {
        running.push(...made.expected.values());
        for (const [node, found] of made.bytes) {
          if (!group.bytes.has(node)) group.bytes.set(node, { ...found, taken: false });
        }
      }
      if (!isDeepStrictEqual(wanted.plan, made)) changed.push(wanted.key);
      wanted.plan = made;
      group.lastPlan = made;
    }
    return changed;
  }

  /** The nodes of the present plan; a new leader takes them from the CachePreload. */
  #plannedNodes(key: string): readonly string[] {
    const plan = this.lastPlan(key);
    if (plan !== undefined) return plan.kind === 'warm' ? plan.nodes : [];
    const preload = this.#options.preloads.get(key);
    return preload === undefined ? [] : plannedNodesOf(preload);
  }
}

/** Equal except for pods, and for the labels that all pods share. */
function differsInPods(a: Wanted, b: Wanted): boolean {
  const bare = ({ pods: _, labels: __, ...rest }: UnplannedGroup) => rest;
  return isSame({ ...a, parts: a.parts.map(bare) as never }, { ...b, parts: b.parts.map(bare) as never });
}

function isSame(a: Wanted, b: Wanted): boolean {
  return a.cluster === b.cluster && isDeepStrictEqual(a.datasets, b.datasets) && isDeepStrictEqual(a.parts, b.parts);
}
