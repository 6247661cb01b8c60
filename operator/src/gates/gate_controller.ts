import { HearthError, type Logger } from '@hearth/common';
import {
  type Clock,
  type EventRecorder,
  type KubernetesClient,
  kinds,
  type Pod,
  runController,
  splitKey,
  systemClock,
  WorkQueue,
} from '@hearth/common/kubernetes';
import type { CachePreload, Dataset } from '@hearth/common/resources';
import type { Agents } from '../agents/index.ts';
import type { Source } from '../kubernetes/index.ts';
import type { GroupPlan, PlanInput } from '../planner/index.ts';
import { type PodGroupStatuses, plannedNodesOf, type Readiness } from '../preload/index.ts';
import { hostnameLabel } from './affinity.ts';
import type { GateMetrics } from './gate_metrics.ts';
import { decide, type GroupView, noPlan, type PlanStep, type Released } from './group_decision.ts';
import { groupFacts, isOutdated } from './group_facts.ts';
import { isOfGate } from './group_preload.ts';
import { GroupStatuses } from './group_status.ts';
import { type GatedMember, Groups } from './groups.ts';
import { Interests } from './interests.ts';
import type { ClaimView, Known, VolumeFacts } from './known.ts';
import type { BareNode } from './plan_world.ts';
import { PlanWriter } from './plan_writer.ts';
import { PlanningQueue } from './planning_queue.ts';
import type { Member, PodView } from './pod_view.ts';
import { refusals, releasePod } from './release.ts';
import { plannedReasons, quietReasons, type Verdict, verdict, warmReasons } from './verdict.ts';

export interface GateControllerOptions {
  api: Pick<KubernetesClient, 'get' | 'create' | 'patch' | 'delete'>;
  agents: Agents;
  plan: (input: PlanInput) => ReadonlyMap<string, GroupPlan>;
  pods: Source<PodView>;
  nodes: Source<{ planned: BareNode }>;
  claims: Source<ClaimView>;
  volumes: Source<VolumeFacts>;
  datasets: Source<Dataset>;
  preloads: Source<CachePreload>;
  readiness: Readiness;
  events: Pick<EventRecorder, 'event'>;
  metrics: GateMetrics;
  logger: Logger;
  clock?: Clock;
  workers?: number;
}

/** How long a plan outlives its last pod: one that is replaced finds it again, ms. */
const lingerMs = 5_000;
/** The pods of a large group come and change one by one, and each look is at all of them: it waits for more, ms a pod. */
const msPerPod = 0.2;
/** Pods that are released sooner hear nothing of having waited, ms. */
const quietMs = 2_000;

const noBytes = { presentBytes: 0, missingBytes: 0 };

/**
 * Gated pods, group by group, for one term of the leader. A look at a group observes it (`GroupView`), decides by two pure
 * functions, `decide` before there is a plan and `verdict` with it, and applies what they say.
 */
export class GateController {
  readonly #options: GateControllerOptions;
  readonly #clock: Clock;
  readonly #queue = new WorkQueue({ firstDelayMs: 100, longestDelayMs: 10_000, ratePerSecond: 100, burst: 500 });
  readonly #groups: Groups;
  readonly #board: PlanningQueue;
  readonly #statuses: GroupStatuses;
  readonly #writer: PlanWriter;
  readonly #interests = new Interests();
  /** Uids of pods whose gates are open, though the watch has not shown it yet. */
  readonly #open = new Set<string>();
  /** Clock time since when a plan has no pods. */
  readonly #idle = new Map<string, number>();
  /** When a plan was deleted, by others or by us: pods made before do not wait for another one. */
  readonly #withdrawn = new Map<string, number>();
  /** What was reported to the pods of a group last. */
  readonly #reported = new Map<string, string>();

  constructor(options: GateControllerOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#groups = new Groups((key) => this.#queue.addAfter(key, this.#groups.size(key) * msPerPod));
    this.#board = new PlanningQueue({
      ...options,
      changed: (key) => {
        this.#statuses.look(key);
        this.#queue.add(key);
      },
    });
    this.#statuses = new GroupStatuses(this.#groups, this.#board);
    this.#writer = new PlanWriter(options.api, this.#clock);
  }

  /** For the status of CachePreloads. */
  get podGroups(): PodGroupStatuses {
    return this.#statuses;
  }

  /** Until the signal aborts. The reflectors run already. */
  async run(signal: AbortSignal): Promise<void> {
    const { pods, nodes, claims, volumes, datasets, preloads, readiness, logger, workers = 16 } = this.#options;
    const concerns = (kind: string) => (key: string) => {
      for (const group of this.#interests.of(`${kind} ${key}`)) this.#queue.add(group);
    };
    const stops = [
      pods.onChange((key, before, after) => this.#podChanged(key, before?.member, after?.member)),
      claims.onChange(concerns('PersistentVolumeClaim')),
      volumes.onChange(concerns('PersistentVolume')),
      datasets.onChange(concerns('Dataset')),
      preloads.onChange((key, before, after) => this.#preloadChanged(key, before, after)),
      readiness.onChange((key) => this.#queue.add(key)),
      this.#board.start(),
    ];
    try {
      const sources: Pick<Source<unknown>, 'synced'>[] = [pods, nodes, claims, volumes, datasets, preloads];
      await Promise.all(sources.map((source) => source.synced()));
      for (const key of pods.keys()) this.#groups.update(key, undefined, pods.get(key)?.member);
      for (const key of preloads.keys()) this.#queue.add(key);
      await runController({
        name: 'gates',
        queue: this.#queue,
        workers,
        reconcile: (key, work) => this.#reconcile(key, work),
        logger,
        signal,
        clock: this.#clock,
      });
    } finally {
      for (const stop of stops) stop();
    }
  }

  #podChanged(pod: string, before: Member | undefined, after: Member | undefined): void {
    if (before !== undefined && (after === undefined || after.gated === undefined)) this.#open.delete(before.uid);
    this.#groups.update(pod, before, after);
  }

  #preloadChanged(key: string, before: CachePreload | undefined, after: CachePreload | undefined): void {
    const known = after ?? before;
    if (known === undefined || !isOfGate(known)) return;
    const deleted = after === undefined ? this.#clock.date().toISOString() : after.metadata.deletionTimestamp;
    if (deleted !== undefined) {
      const at = Date.parse(known.metadata.deletionTimestamp ?? deleted);
      this.#withdrawn.set(key, Math.min(at, this.#withdrawn.get(key) ?? at));
    } else if (before === undefined || before.metadata.uid !== after?.metadata.uid) {
      this.#withdrawn.delete(key);
    }
    this.#queue.add(key);
  }

  async #reconcile(key: string, signal: AbortSignal): Promise<void> {
    this.#statuses.look(key);
    try {
      await this.#releaseOrWait(key, signal);
    } finally {
      await this.#writeNodes(key, signal);
    }
  }

  /** Into the spec, by which they are brought their bytes, and which a leader after this one goes by. */
  async #writeNodes(key: string, signal: AbortSignal): Promise<void> {
    const refused = this.#writer.refusal(key);
    const waiting = this.#groups.gated(key).length > 0;
    const again = await this.#writer.write(key, this.#options.preloads.get(key), this.#statuses.nodes(key), {
      waiting,
      signal,
    });
    if (again !== undefined) this.#lookAgain(key, again);
    // Its pods wait for nothing then.
    if (refused === undefined && this.#writer.refusal(key) !== undefined) this.#queue.add(key);
  }

  async #releaseOrWait(key: string, signal: AbortSignal): Promise<void> {
    const pods = this.#groups.gated(key).filter(({ uid }) => !this.#open.has(uid));
    if (pods.length === 0) {
      this.#interests.drop(key);
      this.#board.unwant(key);
      this.#reported.delete(key);
      if (this.#groups.members(key).length === 0) await this.#remove(key, signal);
      return;
    }
    this.#idle.delete(key);
    const decision = await this.#verdict(this.#view(key, pods), signal);
    if (decision === undefined) return;
    if (decision.kind === 'wait') {
      this.#report(key, pods, decision.message);
      return;
    }
    const planned = plannedReasons.has(decision.reason) ? this.#board.planOf(key)?.pods : undefined;
    const going = pods.filter(({ name }) => planned === undefined || planned.has(name));
    await this.#release(key, going, decision, signal);
    // Those that came meanwhile have a plan of their own soon.
    if (going.length < pods.length) this.#queue.add(key);
  }

  #view(key: string, pods: readonly GatedMember[]): GroupView {
    const facts = groupFacts(pods, this.#known());
    this.#interests.set(key, facts.looked);
    const now = this.#clock.date().getTime();
    this.#lookAgain(key, facts.until - now);
    const preload = this.#options.preloads.get(key);
    return { key, now, pods, facts, preload, withdrawnAt: this.#withdrawn.get(key) };
  }

  /** Undefined: it is too early to say anything; the key comes again. */
  async #verdict(view: GroupView, signal: AbortSignal): Promise<Verdict | undefined> {
    const decision = decide(view);
    if (decision.kind === 'release') return decision;
    if (decision.kind === 'later') {
      if (decision.again !== undefined) this.#lookAgain(view.key, decision.again - view.now);
      return undefined;
    }
    const refusal = await this.#writePreload(view.key, decision.preload, signal);
    if (refusal !== undefined) return noPlan(`its CachePreload is refused: ${refusal.message}`);
    const unwritten = this.#writer.refusal(view.key);
    if (unwritten !== undefined) return noPlan(`the nodes of its plan cannot be written: ${unwritten}`);
    if (decision.wanted !== undefined) this.#board.want(view.key, decision.wanted);
    return this.#judge(view, decision);
  }

  #judge({ key, facts, preload }: GroupView, { overdue, waitsFor }: PlanStep): Verdict {
    const { nodes, readiness } = this.#options;
    return verdict({
      gate: facts.gate,
      overdue,
      outcome: this.#board.planOf(key)?.outcome ?? (overdue ? this.#board.lastOutcome(key) : undefined),
      readiness: isOutdated(preload, facts.datasets) ? undefined : readiness.of(key),
      unready: waitsFor,
      formerNodes: preload === undefined ? [] : formerNodes(preload),
      hostname: (node) => nodes.get(node)?.planned.labels[hostnameLabel],
    });
  }

  #known(): Known {
    const { claims, volumes, datasets } = this.#options;
    return {
      claim: (key) => claims.get(key),
      volume: (name) => volumes.get(name),
      dataset: (key) => datasets.get(key),
    };
  }

  /** Gives back what the API server will not take however often it is tried, as by a quota or a policy. */
  async #writePreload(key: string, write: PlanStep['preload'], signal: AbortSignal): Promise<HearthError | undefined> {
    const { api } = this.#options;
    const { namespace, name } = splitKey(key);
    try {
      // The watch may not have shown yet one that was made a moment ago.
      if (write?.kind === 'create') await unless('AlreadyExists', api.create(kinds.CachePreload, write.object, signal));
      if (write?.kind === 'patch') {
        await api.patch(kinds.CachePreload, name, namespace, write.change, { kind: 'merge', signal });
      }
      return undefined;
    } catch (thrown) {
      const error = HearthError.from(thrown);
      if (error.code === 'PermissionDenied' || error.code === 'InvalidArgument') return error;
      throw error;
    }
  }

  async #release(key: string, pods: readonly GatedMember[], decision: Released, signal: AbortSignal): Promise<void> {
    const { api, metrics, logger, events } = this.#options;
    const { namespace = '' } = splitKey(key);
    this.#board.released(
      key,
      namespace,
      pods.map(({ name }) => name),
    );
    this.#statuses.setReason(key, `each ${decision.message}`);
    const results = await Promise.allSettled(
      pods.map(async ({ gated, name, uid }) => {
        const opened = await releasePod({ api, logger }, gated, decision.affinity(name), signal);
        this.#open.add(uid);
        return opened;
      }),
    );
    const now = this.#clock.date().getTime();
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
      const { presentBytes, missingBytes: broughtBytes } = warm ? this.#board.takeBytes(key) : noBytes;
      metrics.released({ reason: decision.reason, waited, presentBytes, broughtBytes });
    }
    logger.info('pods were released', { group: key, pods: waited.length, reason: decision.reason });
    const failed = results.find((result) => result.status === 'rejected');
    if (failed !== undefined) throw HearthError.from(failed.reason);
  }

  /** Nothing that the operator can mend: another webhook or policy forbids or changes the update. */
  #reportRefusal(gated: Pod, { code, message }: HearthError): void {
    if (!refusals.has(code)) return;
    const words = `its gate cannot be opened and is tried again, as the update is refused: ${message}`;
    this.#options.events.event(gated, 'Warning', 'GateRefused', words);
  }

  /** Once it has waited for a moment, each pod gets the reason, and again when more than a percentage or a size has changed. */
  #report(key: string, pods: readonly GatedMember[], message: string): void {
    this.#statuses.clearReason(key);
    const age = this.#clock.date().getTime() - Math.min(...pods.map(({ createdAt }) => createdAt));
    if (age < quietMs) {
      this.#lookAgain(key, quietMs - age);
      return;
    }
    const what = message.replace(/[\d.]+ (%|[KMGTPE]?i?B\b|bytes?)/g, '#');
    if (this.#reported.get(key) === what) return;
    this.#reported.set(key, what);
    for (const { gated } of pods) this.#options.events.event(gated, 'Normal', 'GateWaiting', `waits: ${message}`);
  }

  /** The plan of a group without pods, if it is one of ours, after a moment. */
  async #remove(key: string, signal: AbortSignal): Promise<void> {
    const present = this.#options.preloads.get(key);
    this.#board.forget(key);
    if (present === undefined || !isOfGate(present) || present.metadata.deletionTimestamp !== undefined) {
      this.#idle.delete(key);
      if (present === undefined) this.#withdrawn.delete(key);
      return;
    }
    const since = this.#idle.get(key) ?? this.#clock.now();
    this.#idle.set(key, since);
    const left = since + lingerMs - this.#clock.now();
    if (left > 0) {
      this.#lookAgain(key, left);
      return;
    }
    const { namespace, name, uid = '' } = present.metadata;
    await this.#options.api.delete(kinds.CachePreload, name, namespace, { preconditions: { uid }, signal });
    this.#options.logger.info('deleted the CachePreload of a group without pods', { group: key });
  }

  /** Exactly then, and not about then. */
  #lookAgain(key: string, ms: number): void {
    if (ms > 0) this.#queue.addAfter(key, ms);
  }
}

/** How much of its bytes the nodes of a plan had when its status was written last. */
function formerNodes(preload: CachePreload): { name: string; percent: number }[] {
  const written = new Map(preload.status?.nodes?.map(({ name, percent }) => [name, percent]));
  return plannedNodesOf(preload).map((name) => ({ name, percent: written.get(name) ?? 0 }));
}

async function unless(code: string, work: Promise<unknown>): Promise<void> {
  try {
    await work;
  } catch (thrown) {
    if (HearthError.from(thrown).code !== code) throw thrown;
  }
}
