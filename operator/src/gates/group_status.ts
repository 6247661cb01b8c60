import { isDeepStrictEqual } from 'node:util';
import type { PodGroupStatus, PodGroupStatuses } from '../preload/index.ts';
import type { Groups } from './groups.ts';
import type { PlanningQueue } from './planning_queue.ts';

/** Of each group: where its bytes are to be, and how its pods are. */
export class GroupStatuses implements PodGroupStatuses {
  readonly #groups: Groups;
  readonly #planning: Pick<PlanningQueue, 'lastPlan'>;
  /** Why the pods were released, by group. */
  readonly #words = new Map<string, string>();
  readonly #reported = new Map<string, PodGroupStatus | undefined>();
  readonly #listeners = new Set<(key: string) => void>();

  constructor(groups: Groups, planning: Pick<PlanningQueue, 'lastPlan'>) {
    this.#groups = groups;
    this.#planning = planning;
  }

  of(key: string): PodGroupStatus | undefined {
    const { members, plan, unbound } = this.#pods(key);
    const reason = this.#words.get(key) ?? plan?.message;
    if (members.length === 0 || (unbound && reason === undefined)) return undefined;
    const waiting = members.filter(({ gated }) => gated !== undefined).length;
    return { reason: reason ?? '', waiting, released: members.length - waiting };
  }

  /**
   * Nodes of the plan while pods have none, and the nodes of the other pods. Undefined: the written list stands, as for
   * pods that a leader released before it had made a plan.
   */
  nodes(key: string): readonly string[] | undefined {
    const { members, plan, unbound } = this.#pods(key);
    if (members.length === 0 || (unbound && plan === undefined)) return undefined;
    const nodes = new Set(unbound && plan?.kind === 'warm' ? plan.nodes : []);
    for (const { node } of members) if (node !== '') nodes.add(node);
    return [...nodes];
  }

  /** `unbound`: some of them have no node yet. */
  #pods(key: string) {
    const members = this.#groups.members(key);
    return { members, plan: this.#planning.lastPlan(key), unbound: members.some(({ node }) => node === '') };
  }

  onChange = (listener: (key: string) => void): (() => void) => {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  };

  /** Why pods of the group were released: reported as soon as the watch shows that they are. */
  setReason(key: string, words: string): void {
    this.#words.set(key, words);
  }

  /** Pods of the group wait again: what was said of others no longer holds. */
  clearReason(key: string): void {
    if (this.#words.delete(key)) this.look(key);
  }

  /** Notifies the listeners if something has changed. */
  look(key: string): void {
    const now = this.of(key);
    if (isDeepStrictEqual(now, this.#reported.get(key))) return;
    if (now === undefined) {
      this.#reported.delete(key);
      if (this.#groups.members(key).length === 0) this.#words.delete(key);
    } else {
      this.#reported.set(key, now);
    }
    for (const listener of this.#listeners) listener(key);
  }
}
