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
import type { GroupPlan, PlanInput } from '../planner/index.ts';
import type { PlannedNodes, Readiness } from '../preload/index.ts';
import { hostnameLabel } from './affinity.ts';
import type { GateMetrics } from './gate_metrics.ts';
import { clusterOf, groupFacts, isOutdated, unplannable, unready } from './group_facts.ts';
import { isOfGate, newPreload, preloadChange } from './group_preload.ts';
import { type GatedMember, Groups, isStray } from './groups.ts';
import { Interests } from './interests.ts';
import type { ClaimView, Known, VolumeFacts } from './known.ts';
import { PlanBoard, type Source } from './plan_board.ts';
import type { BareNode } from './plan_world.ts';
import { GroupNodes } from './planned_nodes.ts';
import { podGroups } from './pod_group.ts';
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

/** How long a pod waits for objects that may be made together with it, ms. */
const provisionalMs = 5_000;
/** How long a plan outlives its last pod: one that is replaced finds it again, ms. */
const lingerMs = 5_000;
/** The pods of a large group come and change one by one, and each look is at all of them: it waits for more, ms a pod. */
const msPerPod = 0.2;
/** Pods that are released sooner hear nothing of having waited, ms. */
const quietMs = 2_000;

const noBytes = { presentBytes: 0, missingBytes: 0 };

type Released = Extract<Verdict, { kind: 'release' }>;

/** Gated pods, group by group, for one term of the leader. */
export class GateController {
  readonly #options: GateControllerOptions;
  readonly #clock: Clock;
  readonly #queue = new WorkQueue({ firstDelayMs: 100, longestDelayMs: 10_000, ratePerSecond: 100, burst: 500 });
  readonly #groups: Groups;
  readonly #board: PlanBoard;
  readonly #nodes: GroupNodes;
  readonly #interests = new Interests();
  /** Uids of pods whose gates are open, though the watch has not told it yet. */
  readonly #open = new Set<string>();
  /** Clock time since when a plan has no pods. */
  readonly #idle = new Map<string, number>();
  /** When a plan was deleted, by others or by us: pods made before do not wait for another one. */
  readonly #withdrawn = new Map<string, number>();
  /** What the pods of a group were told last. */
  readonly #told = new Map<string, string>();

  constructor(options: GateControllerOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#groups = new Groups((key) => this.#queue.addAfter(key, this.#groups.size(key) * msPerPod));
    this.#board = new PlanBoard({
      ...options,
      changed: (key) => {
        this.#nodes.look(key);
        this.#queue.add(key);
      },
    });
    this.#nodes = new GroupNodes(this.#groups, this.#board);
  }

  /** For those who bring the bytes. */
  get plannedNodes(): PlannedNodes {
    return this.#nodes;
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
    this.#nodes.look(key);
    const pods = this.#groups.gated(key).filter(({ uid }) => !this.#open.has(uid));
    if (pods.length === 0) {
      this.#interests.drop(key);
      this.#board.unwant(key);
      this.#told.delete(key);
      if (this.#groups.members(key).length === 0) await this.#takeAway(key, signal);
      return;
    }
    this.#idle.delete(key);
    const decision = isStray(key) ? noPlan('it was given the gate by hand') : await this.#decide(key, pods, signal);
    if (decision === undefined) return;
    if (decision.kind === 'wait') {
      this.#tell(key, pods, decision.message);
      return;
    }
    const planned = plannedReasons.has(decision.reason) ? this.#board.planOf(key)?.pods : undefined;
    const going = pods.filter(({ name }) => planned === undefined || planned.has(name));
    await this.#release(key, going, decision, signal);
    // Those that came meanwhile have a plan of their own soon.
    if (going.length < pods.length) this.#queue.add(key);
  }

  /** Undefined: it is too early to say anything; the key comes again. */
  async #decide(key: string, pods: readonly GatedMember[], signal: AbortSignal): Promise<Verdict | undefined> {
    const facts = groupFacts(pods, this.#known());
    this.#interests.set(key, facts.looked);
    const now = this.#clock.date().getTime();
    this.#lookAgain(key, facts.until - now);
    if (facts.missing.length > 0 && now < facts.since + provisionalMs) {
      this.#lookAgain(key, facts.since + provisionalMs - now);
      return undefined;
    }
    if (facts.datasets.size === 0) return freely('NoDataset', 'starts, as none of its volumes is one of a Dataset');
    if (facts.gate.mode === 'Off') return freely('Off', 'starts, as its gate is Off now');
    const overdue = now >= facts.until;
    const why = unplannable(facts);
    if (why !== undefined) return noPlan(why);
    const state = overdue ? 'there' : await orRefusal(this.#ensurePreload(key, pods, facts, signal));
    if (state instanceof HearthError) return noPlan(`its CachePreload is refused: ${state.message}`);
    if (state === 'foreign') return noPlan(`CachePreload ${splitKey(key).name} was made by somebody else`);
    if (state === 'withdrawn') return freely('Withdrawn', 'starts, as its CachePreload was deleted');
    if (state === 'going') return undefined;
    const waitsFor = unready(facts.datasets);
    // When its time is over nothing may keep it: a plan that there is is used, and none is asked for.
    if (waitsFor === '' && !overdue) this.#want(key, pods, facts);
    const { nodes, readiness } = this.#options;
    const preload = this.#options.preloads.get(key);
    return verdict({
      gate: facts.gate,
      overdue,
      outcome: this.#board.planOf(key)?.outcome ?? (overdue ? this.#board.lastOutcome(key) : undefined),
      readiness: isOutdated(preload, facts.datasets) ? undefined : readiness.of(key),
      unready: waitsFor,
      formerNodes: preload?.status?.nodes ?? [],
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

  #want(key: string, pods: readonly GatedMember[], { gate, datasets, foreign }: ReturnType<typeof groupFacts>): void {
    const [first] = datasets.values();
    this.#board.want(key, {
      cluster: (first && clusterOf(first)) ?? '',
      parts: podGroups({ key, pods, gate, datasets: [...datasets.keys()], foreign }),
      datasets: new Map([...datasets].map(([name, { status }]) => [name, status?.bytes ?? 0])),
    });
  }

  /** `going`: one is being deleted, after which another is made; its deletion wakes the group. */
  async #ensurePreload(
    key: string,
    pods: readonly GatedMember[],
    { gate, datasets }: ReturnType<typeof groupFacts>,
    signal: AbortSignal,
  ): Promise<'there' | 'foreign' | 'withdrawn' | 'going'> {
    const present = this.#options.preloads.get(key);
    if (present !== undefined && !isOfGate(present)) return 'foreign';
    const withdrawn = this.#withdrawn.get(key);
    // Creation is told in whole seconds.
    if (withdrawn !== undefined && pods.every(({ createdAt }) => createdAt < Math.floor(withdrawn / 1000) * 1000)) {
      return 'withdrawn';
    }
    if (present?.metadata.deletionTimestamp !== undefined) return 'going';
    const names = Array.from(datasets.values(), ({ metadata }) => metadata.name);
    const { namespace = '', name } = splitKey(key);
    const { api } = this.#options;
    if (present === undefined) {
      // The watch may not have told yet of one that was made a moment ago.
      await unlessThere(api.create(kinds.CachePreload, newPreload({ namespace, name }, pods, gate, names), signal));
      return 'there';
    }
    const change = preloadChange(present, pods, gate, names);
    if (change !== undefined) await api.patch(kinds.CachePreload, name, namespace, change, { kind: 'merge', signal });
    return 'there';
  }

  async #release(key: string, pods: readonly GatedMember[], decision: Released, signal: AbortSignal): Promise<void> {
    const { api, metrics, logger, events } = this.#options;
    const { namespace = '' } = splitKey(key);
    this.#board.released(
      key,
      namespace,
      pods.map(({ name }) => name),
    );
    this.#nodes.say(key, `each ${decision.message}`);
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
      if (result?.status === 'rejected') this.#tellRefusal(gated, HearthError.from(result.reason));
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

  /** Nothing that the operator can mend: somebody else forbids or changes the update. */
  #tellRefusal(gated: Pod, { code, message }: HearthError): void {
    if (!refusals.has(code)) return;
    const words = `its gate cannot be opened and is tried again, as the update is refused: ${message}`;
    this.#options.events.event(gated, 'Warning', 'GateRefused', words);
  }

  /** Once it has waited for a moment, each pod is told why, and again when more than a percentage or a size has changed. */
  #tell(key: string, pods: readonly GatedMember[], message: string): void {
    this.#nodes.unsay(key);
    const age = this.#clock.date().getTime() - Math.min(...pods.map(({ createdAt }) => createdAt));
    if (age < quietMs) {
      this.#lookAgain(key, quietMs - age);
      return;
    }
    const what = message.replace(/[\d.]+ (%|[KMGTPE]?i?B\b|bytes?)/g, '#');
    if (this.#told.get(key) === what) return;
    this.#told.set(key, what);
    for (const { gated } of pods) this.#options.events.event(gated, 'Normal', 'GateWaiting', `waits: ${message}`);
  }

  /** The plan of a group without pods, if it is one of ours, after a moment. */
  async #takeAway(key: string, signal: AbortSignal): Promise<void> {
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
    this.#options.logger.info('a plan was taken away with its last pod', { group: key });
  }

  /** Exactly then, and not about then. */
  #lookAgain(key: string, ms: number): void {
    if (ms > 0) this.#queue.addAfter(key, ms);
  }
}

function freely(reason: Released['reason'], message: string): Released {
  return { kind: 'release', reason, message, affinity: () => undefined };
}

function noPlan(why: string): Released {
  return freely('NoPlan', `starts without waiting, as ${why}`);
}

/** What the API server will not take however often it is tried, as by a quota or a policy. */
async function orRefusal<T>(work: Promise<T>): Promise<T | HearthError> {
  try {
    return await work;
  } catch (thrown) {
    const error = HearthError.from(thrown);
    if (error.code === 'PermissionDenied' || error.code === 'InvalidArgument') return error;
    throw error;
  }
}

async function unlessThere(work: Promise<unknown>): Promise<void> {
  try {
    await work;
  } catch (thrown) {
    if (HearthError.from(thrown).code !== 'AlreadyExists') throw thrown;
  }
}
