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
  /** The list during or after which it was last seen. */
  generation: number;
}

/** The reflector's objects. Reports each difference, once, after it is visible. Synchronous. */
export class ObjectStore<P> {
  readonly #entries = new Map<string, Entry<P>>();
  readonly #notify: (key: string, before: P | undefined, after: P | undefined) => void;
  readonly #same: (before: P, after: P) => boolean;
  #generation = 0;

  /** `same`: two values of one object that need not be distinguished. */
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

  /** A list begins: what it has is put with this number, and the rest swept at its end. */
  begin(): number {
    this.#generation += 1;
    return this.#generation;
  }

  /** Nothing is reported when the object is the one already known. */
  put(object: StoredObject<P>, generation: number = this.#generation): void {
    const { key, uid, resourceVersion, value } = object;
    const known = this.#entries.get(key);
    if (known !== undefined && known.uid === uid && known.resourceVersion === resourceVersion) {
      known.generation = generation;
      return;
    }
    // The same name with another uid is another object: the old one has gone in between.
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

  /** Removes what the complete list with this number did not have. */
  sweep(generation: number): void {
    for (const [key, entry] of this.#entries) {
      if (entry.generation !== generation) this.delete(key);
    }
  }
}
