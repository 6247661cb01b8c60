import type { NodeStatus } from '@hearth/common/generated/hearth/v1/control.ts';

/** Since when agents do not serve, as far as this operator has seen. */
export class AwayNodes {
  readonly #since = new Map<string, number>();

  /** `names`: nodes that should have an agent; `now`: milliseconds since the epoch. */
  note(names: Iterable<string>, agents: ReadonlyMap<string, NodeStatus>, now: number): void {
    for (const name of names) {
      if (agents.get(name)?.ready === true) this.#since.delete(name);
      else if (!this.#since.has(name)) this.#since.set(name, now);
    }
  }

  /** By node, milliseconds since the epoch. */
  get since(): ReadonlyMap<string, number> {
    return this.#since;
  }
}
