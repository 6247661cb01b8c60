import { isDeepStrictEqual } from 'node:util';
import type { PlannedNodes, PlannedPods } from '../preload/index.ts';
import type { Groups } from './groups.ts';
import type { PlanBoard } from './plan_board.ts';

/** What those who bring the bytes are told of the groups: where their pods will go, and where they are. */
export class GroupNodes implements PlannedNodes {
  readonly #groups: Groups;
  readonly #board: Pick<PlanBoard, 'lastOutcome'>;
  /** Why the pods were released, by group. */
  readonly #words = new Map<string, string>();
  readonly #told = new Map<string, PlannedPods | undefined>();
  readonly #listeners = new Set<(key: string) => void>();

  constructor(groups: Groups, board: Pick<PlanBoard, 'lastOutcome'>) {
    this.#groups = groups;
    this.#board = board;
  }

  of(key: string): PlannedPods | undefined {
    const members = this.#groups.members(key);
    if (members.length === 0) return undefined;
    const nodes = new Set<string>();
    const outcome = this.#board.lastOutcome(key);
    if (members.some(({ node }) => node === '')) {
      // A plan of a former leader is what the status tells; a look at the groups alone is not enough to change it.
      if (outcome === undefined && !this.#words.has(key)) return undefined;
      if (outcome?.kind === 'warm') for (const node of outcome.nodes) nodes.add(node);
    }
    for (const { node } of members) if (node !== '') nodes.add(node);
    const waiting = members.filter(({ gated }) => gated !== undefined).length;
    return {
      nodes: [...nodes],
      reason: this.#words.get(key) ?? outcome?.message ?? '',
      waiting,
      released: members.length - waiting,
    };
  }

  onChange = (listener: (key: string) => void): (() => void) => {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  };

  /** Why pods of the group were released: told as soon as the watch shows that they are. */
  say(key: string, words: string): void {
    this.#words.set(key, words);
  }

  /** Pods of the group wait again: what was said of others no longer holds. */
  unsay(key: string): void {
    if (this.#words.delete(key)) this.look(key);
  }

  /** Tells the listeners if something has changed. */
  look(key: string): void {
    const now = this.of(key);
    if (isDeepStrictEqual(now, this.#told.get(key))) return;
    if (now === undefined) {
      this.#told.delete(key);
      if (this.#groups.members(key).length === 0) this.#words.delete(key);
    } else {
      this.#told.set(key, now);
    }
    for (const listener of this.#listeners) listener(key);
  }
}
