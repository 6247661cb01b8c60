import { isDeepStrictEqual } from 'node:util';
import type { PodGroupStatus, PodGroupStatuses } from '../preload/index.ts';
import { type Groups, isWithdrawn } from './groups.ts';
import type { PlanningQueue } from './planning_queue.ts';

/** The nodes and the pods of each group, for the status of its CachePreload. */
export class GroupStatuses implements PodGroupStatuses {
  readonly #groups: Groups;
  readonly #planning: Pick<PlanningQueue, 'lastPlan'>;
  readonly #reasons = new Map<string, string>();
  readonly #reported = new Map<string, PodGroupStatus | undefined>();
  readonly #listeners = new Set<(key: string) => void>();
  #isLoaded = false;

  constructor(groups: Groups, planning: Pick<PlanningQueue, 'lastPlan'>) {
    this.#groups = groups;
    this.#planning = planning;
  }

  of(key: string): PodGroupStatus | undefined {
    const { members, plan, unbound } = this.#pods(key);
    const reason = this.#reasons.get(key) ?? plan?.message;
    if (members.length === 0 || (unbound && reason === undefined)) return undefined;
    const waiting = members.filter(({ gated }) => gated !== undefined).length;
    return { reason: reason ?? '', waiting, released: members.length - waiting };
  }

  /** The plan's nodes for unbound pods, and the nodes of bound pods. Undefined keeps the written list. */
  nodes(key: string): readonly string[] | undefined {
    const { members, plan, unbound } = this.#pods(key);
    if (members.length === 0 || (unbound && plan === undefined)) return undefined;
    const nodes = new Set(unbound && plan?.kind === 'warm' ? plan.nodes : []);
    for (const { node } of members) if (node !== '') nodes.add(node);
    return [...nodes];
  }

  #pods(key: string) {
    const members = this.#groups.members(key);
    return { members, plan: this.#planning.lastPlan(key), unbound: members.some(({ node }) => node === '') };
  }

  /** All pods are in `groups` from now on. */
  loaded(): void {
    this.#isLoaded = true;
  }

  holds(key: string, deletionTimestamp: string): boolean {
    return !this.#isLoaded || isWithdrawn(this.#groups.gated(key), deletionTimestamp);
  }

  onChange = (listener: (key: string) => void): (() => void) => {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  };

  /** Reported when the watch shows the release. */
  setReason(key: string, words: string): void {
    this.#reasons.set(key, words);
  }

  clearReason(key: string): void {
    if (this.#reasons.delete(key)) this.refresh(key);
  }

  refresh(key: string): void {
    const now = this.of(key);
    if (isDeepStrictEqual(now, this.#reported.get(key))) return;
    if (now === undefined) {
      this.#reported.delete(key);
      if (this.#groups.members(key).length === 0) this.#reasons.delete(key);
    } else {
      this.#reported.set(key, now);
    }
    for (const listener of this.#listeners) listener(key);
  }
}
