/** Maps objects to the keys that read them, so that a change of an object wakes these keys. */
export class Interests {
  readonly #objects = new Map<string, ReadonlySet<string>>();
  readonly #keys = new Map<string, Set<string>>();

  set(key: string, objects: ReadonlySet<string>): void {
    this.drop(key);
    this.#objects.set(key, objects);
    for (const object of objects) this.#keys.set(object, (this.#keys.get(object) ?? new Set()).add(key));
  }

  drop(key: string): void {
    for (const object of this.#objects.get(key) ?? []) {
      const keys = this.#keys.get(object);
      keys?.delete(key);
      if (keys?.size === 0) this.#keys.delete(object);
    }
    this.#objects.delete(key);
  }

  of(object: string): readonly string[] {
    return [...(this.#keys.get(object) ?? [])];
  }
}
