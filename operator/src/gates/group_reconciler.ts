import { HearthError, ignoring, type Logger } from '@hearth/common';
import {
  type Clock,
  type EventRecorder,
  type KubernetesClient,
  kinds,
  type Pod,
  type ReconcileResult,
  splitKey,
} from '@hearth/common/kubernetes';
import type { CachePreload, Dataset } from '@hearth/common/resources';
import { Interests, type Source } from '../kubernetes/index.ts';
import type { Readiness } from '../preload/index.ts';
import type { Reconciler } from '../reconciler/index.ts';
import type { GateMetrics } from './gate_metrics.ts';
import { type GroupAction, type GroupState, quietReasons, warmReasons } from './group_action.ts';
import { clusterOf, describeUnready, type GroupFacts, groupFacts, whyUnplannable } from './group_facts.ts';
import { type ObservedGroup, planGroup, withoutFigures } from './group_plan.ts';
import { isOfGate } from './group_preload.ts';
import type { GroupStatuses } from './group_status.ts';
import { type GatedMember, type Groups, groupKey } from './groups.ts';
import type { BareNode } from './plan_world.ts';
import type { PlanningQueue, Wanted } from './planning_queue.ts';
import type { ClaimView, VolumeFacts } from './pod_datasets.ts';
import { podGroups } from './pod_group.ts';
import type { Member } from './pod_view.ts';
import { hostnameLabel, refusals, releasePod } from './release.ts';

export interface GroupReconcilerOptions {
  api: Pick<KubernetesClient, 'get' | 'create' | 'patch' | 'delete'>;
  groups: Groups;
  planning: PlanningQueue;
  statuses: GroupStatuses;
  nodes: Source<{ planned: BareNode }>;
  claims: Source<ClaimView>;
  volumes: Source<VolumeFacts>;
  datasets: Source<Dataset>;
  preloads: Source<CachePreload>;
  readiness: Readiness;
  events: Pick<EventRecorder, 'event'>;
  metrics: GateMetrics;
  logger: Logger;
  clock: Clock;
  requeueAfter: (key: string, ms: number) => void;
}

const noBytes = { presentBytes: 0, missingBytes: 0 };
/** The retry of a failed write of nodes that blocks no pod, ms. */
const nodesRetryMs = 1_000;

type Release = Extract<GroupAction, { kind: 'release' }>;

/**
 * Gated pods, group by group: `observe` reads, `planGroup` plans every write, `apply` writes. The life of a group:
 * createPreload, choose, writeNodes, wait, release, idle, forget, deletePreload.
 */
export class GroupReconciler implements Reconciler<string, ObservedGroup, GroupAction> {
  readonly plan = (_key: string, observed: ObservedGroup) => planGroup(observed);
  readonly #options: GroupReconcilerOptions;
  readonly #interests = new Interests();
  readonly #states = new Map<string, GroupState>();
  /** Clock time. Groups that were empty before the term count as empty since then. */
  readonly #startedAt: number;

  constructor(options: GroupReconcilerOptions) {
    this.#options = options;
    this.#startedAt = options.clock.now();
  }

  podChanged(pod: string, before: Member | undefined, after: Member | undefined): void {
    const { groups, clock } = this.#options;
    groups.update(pod, before, after);
    if (before !== undefined) {
      const key = groupKey(before);
      const state = this.#state(key);
      if (after?.gated === undefined) state.open.delete(before.uid);
      if (groups.size(key) === 0) state.emptySince = clock.now();
    }
    if (after !== undefined) this.#state(groupKey(after)).emptySince = undefined;
  }

  preloadChanged(key: string, before: CachePreload | undefined, after: CachePreload | undefined): string[] {
    const known = after ?? before;
    if (known === undefined || !isOfGate(known)) return [];
    const state = this.#state(key);
    if (after === undefined) {
      state.nodesRefused = undefined;
      state.nodesWrittenAt = undefined;
    }
    return [key];
  }

  /** The groups whose last pass read this object. */
  interested(kind: string, key: string): readonly string[] {
    return this.#interests.of(`${kind} ${key}`);
  }

  async observe(key: string): Promise<ObservedGroup> {
    const { groups, planning, statuses, nodes, claims, volumes, datasets, preloads, readiness, clock } = this.#options;
    const state = this.#states.get(key) ?? { open: new Set<string>() };
    const held = groups.gated(key);
    const pods = held.filter(({ uid }) => !state.open.has(uid));
    const known = {
      claim: (name: string) => claims.get(name),
      volume: (name: string) => volumes.get(name),
      dataset: (name: string) => datasets.get(name),
    };
    const facts = pods.length === 0 ? undefined : groupFacts(pods, known);
    const wanted = facts && wantedOf(key, pods, facts);
    const emptySince = state.emptySince ?? this.#startedAt;
    return {
      key,
      now: clock.date().getTime(),
      pods,
      facts,
      emptyMs: groups.size(key) === 0 ? clock.now() - emptySince : undefined,
      preload: preloads.get(key),
      state,
      wanted,
      plan: wanted === undefined ? planning.planOf(key) : planning.planFor(key, wanted),
      lastPlan: planning.lastPlan(key),
      readiness: readiness.of(key),
      nodes: statuses.nodes(key),
      isHolding: held.length > 0,
      nodesAgeMs: clock.now() - (state.nodesWrittenAt ?? Number.NEGATIVE_INFINITY),
      hostname: (node) => nodes.get(node)?.planned.labels[hostnameLabel],
    };
  }

  // biome-ignore lint/suspicious/noConfusingVoidType: as in Reconciler
  async apply(action: GroupAction, key: string, signal: AbortSignal): Promise<ReconcileResult | void> {
    const { api, planning, logger, requeueAfter } = this.#options;
    const { namespace = '', name } = splitKey(key);
    switch (action.kind) {
      case 'follow':
        return this.#interests.set(key, action.objects);
      case 'requeueAfter':
        return requeueAfter(key, action.ms);
      case 'createPreload':
        // The watch may lag behind an earlier creation.
        return await this.#writePreload(key, () =>
          api.create(kinds.CachePreload, action.object, signal).catch(ignoring('AlreadyExists')),
        );
      case 'patchPreload':
        return await this.#writePreload(key, () =>
          api.patch(kinds.CachePreload, name, namespace, action.change, { kind: 'merge', signal }),
        );
      case 'writeNodes':
        return await this.#writeNodes(key, action.change, signal);
      case 'choose':
        return planning.want(key, action.wanted);
      case 'wait':
        return this.#wait(key, action.message, action.notify);
      case 'release':
        return await this.#release(key, action, signal);
      case 'idle':
        this.#idle(key);
        return planning.unwant(key);
      case 'forget':
        this.#idle(key);
        if (action.gone) this.#states.delete(key);
        return planning.forget(key);
      case 'deletePreload': {
        const { uid = '' } = action.preload.metadata;
        await api.delete(kinds.CachePreload, name, namespace, { preconditions: { uid }, signal });
        return logger.info('deleted the CachePreload of a group without pods', { group: key });
      }
    }
  }

  /** For writers; `observe` creates no state. */
  #state(key: string): GroupState {
    const state = this.#states.get(key) ?? { open: new Set() };
    this.#states.set(key, state);
    return state;
  }

  #idle(key: string): void {
    this.#interests.drop(key);
    const state = this.#state(key);
    state.reported = undefined;
    state.refused = undefined;
  }

  /** A refusal by the API server or a policy is no failure: the pods start without a plan. */
  async #writePreload(key: string, write: () => Promise<unknown>): Promise<void> {
    try {
      await write();
    } catch (thrown) {
      const { code, message } = HearthError.from(thrown);
      if (!refusals.has(code)) throw thrown;
      this.#state(key).refused = message;
      this.#options.requeueAfter(key, 0);
    }
  }

  /** No failure ends the pass, since a later release must not wait. */
  async #writeNodes(key: string, change: object, signal: AbortSignal): Promise<ReconcileResult> {
    const { api, clock, logger, requeueAfter } = this.#options;
    const { namespace = '', name } = splitKey(key);
    const state = this.#state(key);
    const before = state.nodesRefused;
    try {
      const options = { kind: 'merge', signal } as const;
      const written = await api.patch(kinds.CachePreload, name, namespace, change, options);
      state.nodesWrittenAt = clock.now();
      // An older CRD silently prunes this field.
      const isWritten = written.spec.placement.gatedPods?.nodes !== undefined;
      state.nodesRefused = isWritten
        ? undefined
        : 'the CRD of CachePreloads is of an earlier release; install it again';
    } catch (thrown) {
      const error = HearthError.from(thrown);
      if (error.code === 'NotFound') return {};
      if (!refusals.has(error.code)) {
        logger.warn('failed to write the nodes of a plan; retrying', { group: key, error });
        return { requeueAfterMs: nodesRetryMs };
      }
      state.nodesRefused = error.message;
    }
    // The next pass releases its pods.
    if (before === undefined && state.nodesRefused !== undefined) requeueAfter(key, 0);
    return {};
  }

  #wait(key: string, message: string, notify: readonly GatedMember[]): void {
    const { statuses, events } = this.#options;
    statuses.clearReason(key);
    if (notify.length === 0) return;
    this.#state(key).reported = withoutFigures(message);
    for (const { gated } of notify) events.event(gated, 'Normal', 'GateWaiting', `waiting: ${message}`);
  }

  async #release(key: string, { pods, reason, message, affinity }: Release, signal: AbortSignal): Promise<void> {
    const { api, planning, statuses, metrics, logger } = this.#options;
    const { namespace = '' } = splitKey(key);
    const names = pods.map(({ name }) => name);
    const state = this.#state(key);
    state.refused = undefined;
    planning.released(key, namespace, names);
    statuses.setReason(key, `each pod ${message}`);
    const results = await Promise.allSettled(
      pods.map(async ({ gated, name, uid }) => {
        const opened = await releasePod({ api, logger }, gated, affinity(name), signal);
        state.open.add(uid);
        return opened;
      }),
    );
    const waited = this.#reportReleased(pods, results, reason, message);
    if (waited.length > 0) {
      const { presentBytes, missingBytes: fetchedBytes } = warmReasons.has(reason) ? planning.takeBytes(key) : noBytes;
      metrics.released({ reason, waited, presentBytes, fetchedBytes });
    }
    logger.info('removed the scheduling gates of pods', { group: key, pods: waited.length, reason });
    const failed = results.find((result) => result.status === 'rejected');
    if (failed !== undefined) throw HearthError.from(failed.reason);
  }

  #reportReleased(
    pods: readonly GatedMember[],
    results: readonly PromiseSettledResult<boolean>[],
    reason: Release['reason'],
    message: string,
  ): number[] {
    const { clock, events } = this.#options;
    const now = clock.date().getTime();
    const type = quietReasons.has(reason) ? 'Normal' : 'Warning';
    const waited: number[] = [];
    for (const [index, { gated, createdAt }] of pods.entries()) {
      const result = results[index];
      if (result?.status === 'rejected') this.#reportRefusal(gated, HearthError.from(result.reason));
      if (result?.status !== 'fulfilled' || !result.value) continue;
      const seconds = Math.max(0, (now - createdAt) / 1000);
      waited.push(seconds);
      events.event(gated, type, `Gate${reason}`, `the pod ${message}; it waited ${Math.round(seconds)} s`);
    }
    return waited;
  }

  /** Others forbid or change the update, so the operator cannot help. */
  #reportRefusal(gated: Pod, { code, message }: HearthError): void {
    if (!refusals.has(code)) return;
    const words = `the API server refused to remove its scheduling gate; retrying: ${message}`;
    this.#options.events.event(gated, 'Warning', 'GateRefused', words);
  }
}

/** Pure. Undefined while some Dataset is not ready, or when no plan is possible. */
function wantedOf(key: string, pods: readonly GatedMember[], facts: GroupFacts): Wanted | undefined {
  const { gate, datasets, foreign } = facts;
  const [first] = datasets.values();
  if (first === undefined || describeUnready(datasets) !== '' || whyUnplannable(facts) !== undefined) return undefined;
  return {
    cluster: clusterOf(first) ?? '',
    parts: podGroups({ key, pods, gate, datasets: [...datasets.keys()], foreign }),
    datasets: new Map([...datasets].map(([name, { status }]) => [name, status?.bytes ?? 0])),
  };
}
