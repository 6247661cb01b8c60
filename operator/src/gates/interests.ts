/** Which groups look at which objects, so that a change of one wakes those that it concerns. */
export class Interests {
  readonly #objects = new Map<string, ReadonlySet<string>>();
  readonly #groups = new Map<string, Set<string>>();

  /** The group looks at these objects now, and at no others. */
  set(group: string, objects: ReadonlySet<string>): void {
    this.drop(group);
    this.#objects.set(group, objects);
    for (const object of objects) {
      const groups = this.#groups.get(object) ?? new Set<string>();
      this.#groups.set(object, groups.add(group));
    }
  }

  drop(group: string): void {
    for (const object of this.#objects.get(group) ?? []) {
      const groups = this.#groups.get(object);
      groups?.delete(group);
      if (groups?.size === 0) this.#groups.delete(object);
    }
    this.#objects.delete(group);
  }

  of(object: string): readonly string[] {
    return [...(this.#groups.get(object) ?? [])];
  }
}
