import { HearthError, ignoring, type Logger } from '@hearth/common';
import {
  type Clock,
  type EventRecorder,
  type KubernetesClient,
  kinds,
  type Pod,
  splitKey,
} from '@hearth/common/kubernetes';
import type { CachePreload, Dataset } from '@hearth/common/resources';
import type { Source } from '../kubernetes/index.ts';
import { plannedNodesOf, type Readiness } from '../preload/index.ts';
import type { Reconciler } from '../reconciler/index.ts';
import { hostnameLabel } from './affinity.ts';
import type { GateMetrics } from './gate_metrics.ts';
import { type GroupView, noPlan, type PlanStep, type Released } from './group_decision.ts';
import { groupFacts, isOutdated } from './group_facts.ts';
import { type GroupAction, isOurs, type ObservedGroup, planGroup } from './group_plan.ts';
import { isOfGate } from './group_preload.ts';
import type { GroupStatuses } from './group_status.ts';
import type { GatedMember, Groups } from './groups.ts';
import { Interests } from './interests.ts';
import type { ClaimView, VolumeFacts } from './known.ts';
import type { BareNode } from './plan_world.ts';
import { PlanWriter } from './plan_writer.ts';
import type { PlanningQueue } from './planning_queue.ts';
import type { Member } from './pod_view.ts';
import { refusals, releasePod } from './release.ts';
import { plannedReasons, quietReasons, type Verdict, verdict, warmReasons } from './verdict.ts';

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
  /** The group is looked at after this time, ms: exactly then, and not about then. */
  lookAgain: (key: string, ms: number) => void;
}

/** Pods that are released sooner hear nothing of having waited, ms. */
const quietMs = 2_000;

const noBytes = { presentBytes: 0, missingBytes: 0 };

/**
 * Gated pods, group by group: `decide` says what is to be done before there is a plan, `verdict` when there is one, whether the
 * pods may go.
 */
export class GroupReconciler implements Reconciler<string, ObservedGroup, GroupAction> {
  readonly plan = (_key: string, observed: ObservedGroup) => planGroup(observed);
  readonly #options: GroupReconcilerOptions;
  readonly #writer: PlanWriter;
  readonly #interests = new Interests();
  /** Uids of pods whose gates are open, though the watch has not shown it yet. */
  readonly #open = new Set<string>();
  /** When a plan was deleted, by others or by us: pods made before do not wait for another one. */
  readonly #withdrawn = new Map<string, number>();
  /** Clock time since when a plan has no pods. */
  readonly #empty = new Map<string, number>();
  /** The last report to the pods of a group. */
  readonly #reported = new Map<string, string>();
  /** Why the API server did not take the CachePreload of a group, in this pass. */
  readonly #refused = new Map<string, string>();

  constructor(options: GroupReconcilerOptions) {
    this.#options = options;
    this.#writer = new PlanWriter(options.api, options.clock);
  }

  podChanged(pod: string, before: Member | undefined, after: Member | undefined): void {
    if (before !== undefined && (after === undefined || after.gated === undefined)) this.#open.delete(before.uid);
    this.#options.groups.update(pod, before, after);
  }

  /** The groups that a change of a CachePreload concerns. */
  preloadChanged(key: string, before: CachePreload | undefined, after: CachePreload | undefined): string[] {
    const known = after ?? before;
    if (known === undefined || !isOfGate(known)) return [];
    const deleted = after === undefined ? this.#options.clock.date().toISOString() : after.metadata.deletionTimestamp;
    if (deleted !== undefined) {
      const at = Date.parse(known.metadata.deletionTimestamp ?? deleted);
      this.#withdrawn.set(key, Math.min(at, this.#withdrawn.get(key) ?? at));
    } else if (before === undefined || before.metadata.uid !== after?.metadata.uid) {
      this.#withdrawn.delete(key);
    }
    return [key];
  }

  /** The groups that looked at this object when they were observed. */
  interested(kind: string, key: string): readonly string[] {
    return this.#interests.of(`${kind} ${key}`);
  }

  async observe(key: string): Promise<ObservedGroup> {
    const { groups, preloads, claims, volumes, datasets, clock } = this.#options;
    const preload = preloads.get(key);
    const pods = groups.gated(key).filter(({ uid }) => !this.#open.has(uid));
    this.#refused.delete(key);
    const empty = groups.size(key) === 0;
    if (!empty || !isOurs(preload)) this.#empty.delete(key);
    if (pods.length === 0) {
      const since = this.#empty.get(key) ?? clock.now();
      if (empty && isOurs(preload)) this.#empty.set(key, since);
      return { kind: 'idle', emptyMs: empty ? clock.now() - since : undefined, preload };
    }
    const facts = groupFacts(pods, {
      claim: (name) => claims.get(name),
      volume: (name) => volumes.get(name),
      dataset: (name) => datasets.get(name),
    });
    this.#interests.set(key, facts.looked);
    const now = clock.date().getTime();
    return { kind: 'waiting', view: { key, now, pods, facts, preload, withdrawnAt: this.#withdrawn.get(key) } };
  }

  async apply(action: GroupAction, key: string, signal: AbortSignal): Promise<void> {
    const { api, planning, preloads, logger, lookAgain } = this.#options;
    switch (action.kind) {
      case 'lookAgain':
        return lookAgain(key, action.ms);
      case 'release':
        return await this.#settle(action.view, action.decision, signal);
      case 'writePreload':
        return await this.#writePreload(key, action.write, signal);
      case 'judge':
        return await this.#settle(action.view, this.#judge(action.view, action.step), signal);
      case 'rest':
        this.#interests.drop(key);
        this.#reported.delete(key);
        if (action.empty) planning.forget(key);
        else planning.unwant(key);
        if (action.empty && preloads.get(key) === undefined) this.#withdrawn.delete(key);
        return;
      case 'deletePreload': {
        const { namespace, name, uid = '' } = action.preload.metadata;
        await api.delete(kinds.CachePreload, name, namespace, { preconditions: { uid }, signal });
        return logger.info('deleted the CachePreload of a group without pods', { group: key });
      }
    }
  }

  /** Into the spec, by which they are brought their bytes, and which a leader after this one goes by. */
  async writeNodes(key: string, signal: AbortSignal): Promise<void> {
    const { groups, preloads, statuses, lookAgain } = this.#options;
    const refused = this.#writer.refusal(key);
    const waiting = groups.gated(key).length > 0;
    const again = await this.#writer.write(key, preloads.get(key), statuses.nodes(key), { waiting, signal });
    if (again !== undefined) lookAgain(key, again);
    // Its pods wait for nothing then.
    if (refused === undefined && this.#writer.refusal(key) !== undefined) lookAgain(key, 0);
  }

  #judge({ key, facts, preload }: GroupView, { overdue, wanted, waitsFor }: PlanStep): Verdict {
    const { planning, nodes, readiness } = this.#options;
    const refused = this.#refused.get(key);
    if (refused !== undefined) return noPlan(`its CachePreload is refused: ${refused}`);
    const unwritten = this.#writer.refusal(key);
    if (unwritten !== undefined) return noPlan(`the nodes of its plan cannot be written: ${unwritten}`);
    if (wanted !== undefined) planning.want(key, wanted);
    return verdict({
      gate: facts.gate,
      overdue,
      outcome: planning.planOf(key)?.outcome ?? (overdue ? planning.lastOutcome(key) : undefined),
      readiness: isOutdated(preload, facts.datasets) ? undefined : readiness.of(key),
      unready: waitsFor,
      formerNodes: preload === undefined ? [] : formerNodes(preload),
      hostname: (node) => nodes.get(node)?.planned.labels[hostnameLabel],
    });
  }

  async #settle({ key, pods }: GroupView, decision: Verdict, signal: AbortSignal): Promise<void> {
    if (decision.kind === 'wait') {
      this.#report(key, pods, decision.message);
      return;
    }
    const planned = plannedReasons.has(decision.reason) ? this.#options.planning.planOf(key)?.pods : undefined;
    const going = pods.filter(({ name }) => planned === undefined || planned.has(name));
    await this.#release(key, going, decision, signal);
    // Pods that came meanwhile have a plan of their own soon.
    if (going.length < pods.length) this.#options.lookAgain(key, 0);
  }

  /** A write that the API server or a policy of the cluster refuses is no failure: the pods do without. */
  async #writePreload(key: string, write: NonNullable<PlanStep['preload']>, signal: AbortSignal): Promise<void> {
    const { api } = this.#options;
    const { namespace = '', name } = splitKey(key);
    try {
      if (write.kind === 'create') {
        // The watch may not have shown yet one that was made a moment ago.
        await api.create(kinds.CachePreload, write.object, signal).catch(ignoring('AlreadyExists'));
      } else {
        await api.patch(kinds.CachePreload, name, namespace, write.change, { kind: 'merge', signal });
      }
    } catch (thrown) {
      const { code, message } = HearthError.from(thrown);
      if (!refusals.has(code)) throw thrown;
      this.#refused.set(key, message);
    }
  }

  async #release(key: string, pods: readonly GatedMember[], decision: Released, signal: AbortSignal): Promise<void> {
    const { api, planning, statuses, clock, metrics, logger, events } = this.#options;
    const { namespace = '' } = splitKey(key);
    const names = pods.map(({ name }) => name);
    planning.released(key, namespace, names);
    statuses.setReason(key, `each ${decision.message}`);
    const results = await Promise.allSettled(
      pods.map(async ({ gated, name, uid }) => {
        const opened = await releasePod({ api, logger }, gated, decision.affinity(name), signal);
        this.#open.add(uid);
        return opened;
      }),
    );
    const now = clock.date().getTime();
    const waited: number[] = [];
    for (const [index, { gated, createdAt }] of pods.entries()) {
      const result = results[index];
      if (result?.status === 'rejected') this.#reportRefusal(gated, HearthError.from(result.reason));
      if (result?.status !== 'fulfilled' || !result.value) continue;
      const seconds = Math.max(0, (now - createdAt) / 1000);
      waited.push(seconds);
      const { reason, message } = decision;
      const type = quietReasons.has(reason) ? 'Normal' : 'Warning';
      events.event(gated, type, `Gate${reason}`, `${message}; it waited ${Math.round(seconds)} s`);
    }
    if (waited.length > 0) {
      const warm = warmReasons.has(decision.reason);
      const { presentBytes, missingBytes: broughtBytes } = warm ? planning.takeBytes(key) : noBytes;
      metrics.released({ reason: decision.reason, waited, presentBytes, broughtBytes });
    }
    logger.info('removed the scheduling gates of pods', { group: key, pods: waited.length, reason: decision.reason });
    const failed = results.find((result) => result.status === 'rejected');
    if (failed !== undefined) throw HearthError.from(failed.reason);
  }

  /** Nothing that the operator can mend: others forbid or change the update. */
  #reportRefusal(gated: Pod, { code, message }: HearthError): void {
    if (!refusals.has(code)) return;
    const words = `the API server refused to remove its scheduling gate; retrying: ${message}`;
    this.#options.events.event(gated, 'Warning', 'GateRefused', words);
  }

  /** Once it has waited for a moment, it is reported to each pod why, and again when more than a percentage or a size has changed. */
  #report(key: string, pods: readonly GatedMember[], message: string): void {
    this.#options.statuses.clearReason(key);
    const age = this.#options.clock.date().getTime() - Math.min(...pods.map(({ createdAt }) => createdAt));
    if (age < quietMs) {
      this.#options.lookAgain(key, quietMs - age);
      return;
    }
    const what = message.replace(/[\d.]+ (%|[KMGTPE]?i?B\b|bytes?)/g, '#');
    if (this.#reported.get(key) === what) return;
    this.#reported.set(key, what);
    for (const { gated } of pods) this.#options.events.event(gated, 'Normal', 'GateWaiting', `waiting: ${message}`);
  }
}

/** How much of its bytes the nodes of a plan had when its status was written last. */
function formerNodes(preload: CachePreload): { name: string; percent: number }[] {
  const written = new Map(preload.status?.nodes?.map(({ name, percent }) => [name, percent]));
  return plannedNodesOf(preload).map((name) => ({ name, percent: written.get(name) ?? 0 }));
}
