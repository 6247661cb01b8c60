import { type Clock, ownKey, runController, systemClock, WorkQueue, watch } from '@hearth/common/kubernetes';
import type { Agents } from '../agents/index.ts';
import type { Source } from '../kubernetes/index.ts';
import type { GroupPlan, PlanInput } from '../planner/index.ts';
import type { PodGroupStatuses } from '../preload/index.ts';
import { reconcileKey } from '../reconciler/index.ts';
import { GroupReconciler, type GroupReconcilerOptions } from './group_reconciler.ts';
import { GroupStatuses } from './group_status.ts';
import { Groups } from './groups.ts';
import { PlanningQueue } from './planning_queue.ts';
import type { PodView } from './pod_view.ts';

export interface GateControllerOptions
  extends Omit<GroupReconcilerOptions, 'groups' | 'planning' | 'statuses' | 'clock' | 'requeueAfter'> {
  agents: Agents;
  plan: (input: PlanInput) => ReadonlyMap<string, GroupPlan>;
  pods: Source<PodView>;
  clock?: Clock;
}

/** Each pass reads all pods of a group, so a large group gathers more events first, ms a pod. */
const gatherMsPerPod = 0.2;

export class GateController {
  readonly #options: GateControllerOptions;
  readonly #queue = new WorkQueue({ firstDelayMs: 100, longestDelayMs: 10_000, ratePerSecond: 100, burst: 500 });
  readonly #groups: Groups;
  readonly #planning: PlanningQueue;
  readonly #statuses: GroupStatuses;

  constructor(options: GateControllerOptions) {
    this.#options = options;
    this.#groups = new Groups((key) => this.#queue.addAfter(key, this.#groups.size(key) * gatherMsPerPod));
    this.#planning = new PlanningQueue({
      ...options,
      changed: (key) => {
        this.#statuses.refresh(key);
        this.#queue.add(key);
      },
    });
    this.#statuses = new GroupStatuses(this.#groups, this.#planning);
  }

  get podGroups(): PodGroupStatuses {
    return this.#statuses;
  }

  async run(signal: AbortSignal): Promise<void> {
    const { pods, nodes, claims, volumes, datasets, preloads, readiness, logger } = this.#options;
    const { clock = systemClock } = this.#options;
    const parts = { groups: this.#groups, planning: this.#planning, statuses: this.#statuses };
    const requeueAfter = (key: string, ms: number) => this.#queue.addAfter(key, ms);
    const reconciler = new GroupReconciler({ ...this.#options, ...parts, clock, requeueAfter });
    const pass = reconcileKey(reconciler, (key) => key);
    await runController({
      name: 'gates',
      queue: this.#queue,
      workers: 16,
      watches: [
        watch(pods, (key, before, after) => reconciler.podChanged(key, before?.member, after?.member)),
        watch(claims, (key) => reconciler.interested('PersistentVolumeClaim', key)),
        watch(volumes, (key) => reconciler.interested('PersistentVolume', key)),
        watch(datasets, (key) => reconciler.interested('Dataset', key)),
        watch(preloads, (key, before, after) => reconciler.preloadChanged(key, before, after)),
        watch(readiness, ownKey),
        this.#planning,
      ],
      reads: [nodes],
      first: () => {
        for (const key of pods.keys()) this.#groups.update(key, undefined, pods.get(key)?.member);
        this.#statuses.loaded();
        return preloads.keys();
      },
      reconcile: async (key, work) => {
        this.#statuses.refresh(key);
        return await pass(key, work);
      },
      logger,
      clock,
      signal,
    });
  }
}
