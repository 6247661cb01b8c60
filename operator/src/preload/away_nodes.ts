/** Since when nodes do not serve, as far as this operator has seen. */
export class AwayNodes {
  readonly #since = new Map<string, number>();

  /** `names`: nodes that should serve; `now`: milliseconds since the epoch. */
  note(names: Iterable<string>, serves: (name: string) => boolean, now: number): void {
    for (const name of names) {
      if (serves(name)) this.#since.delete(name);
      else if (!this.#since.has(name)) this.#since.set(name, now);
    }
  }

  /** By node, milliseconds since the epoch. */
  get since(): ReadonlyMap<string, number> {
    return this.#since;
  }
}
