export interface StoredObject<P> {
  key: string;
  uid: string;
  resourceVersion: string;
  value: P;
}

interface Entry<P> {
  uid: string;
  resourceVersion: string;
  value: P;
  /** The most recent list in which or after which the object was seen. */
  generation: number;
}

/** Objects of a reflector. Reports each difference once, after it is visible. Synchronous. */
export class ObjectStore<P> {
  readonly #entries = new Map<string, Entry<P>>();
  readonly #notify: (key: string, before: P | undefined, after: P | undefined) => void;
  readonly #same: (before: P, after: P) => boolean;
  #generation = 0;

  /** `same`: true when two values of an object need not be distinguished. */
  constructor(
    notify: (key: string, before: P | undefined, after: P | undefined) => void,
    same: (before: P, after: P) => boolean,
  ) {
    this.#notify = notify;
    this.#same = same;
  }

  get size(): number {
    return this.#entries.size;
  }

  get(key: string): P | undefined {
    return this.#entries.get(key)?.value;
  }

  keys(): string[] {
    return [...this.#entries.keys()];
  }

  values(): P[] {
    return Array.from(this.#entries.values(), (entry) => entry.value);
  }

  /** Begins a list: `put` its objects with the returned number, then `sweep`. */
  begin(): number {
    this.#generation += 1;
    return this.#generation;
  }

  /** Reports nothing when the object is unchanged. */
  put(object: StoredObject<P>, generation: number = this.#generation): void {
    const { key, uid, resourceVersion, value } = object;
    const known = this.#entries.get(key);
    if (known !== undefined && known.uid === uid && known.resourceVersion === resourceVersion) {
      known.generation = generation;
      return;
    }
    // Another uid under the same name is another object: the old one was deleted in between.
    if (known !== undefined && known.uid !== uid) this.delete(key);
    const before = this.#entries.get(key);
    if (before !== undefined && this.#same(before.value, value)) {
      this.#entries.set(key, { ...before, resourceVersion, generation });
      return;
    }
    this.#entries.set(key, { uid, resourceVersion, value, generation });
    this.#notify(key, before?.value, value);
  }

  delete(key: string): void {
    const known = this.#entries.get(key);
    if (known === undefined) return;
    this.#entries.delete(key);
    this.#notify(key, known.value, undefined);
  }

  /** Removes objects that the complete list of this generation lacks. */
  sweep(generation: number): void {
    for (const [key, entry] of this.#entries) {
      if (entry.generation !== generation) this.delete(key);
    }
  }
}
