/**
 * One value in place of many equal ones: pods of a controller have the same labels and ask for the same, and there are
 * many. What is not held any longer is forgotten. Values are JSON, and must not be changed.
 */
export class Interned<T extends object> {
  readonly #known = new Map<string, WeakRef<T>>();
  readonly #forget = new FinalizationRegistry<string>((key) => {
    if (this.#known.get(key)?.deref() === undefined) this.#known.delete(key);
  });

  of(value: T): T {
    const key = JSON.stringify(value);
    const known = this.#known.get(key)?.deref();
    if (known !== undefined) return known;
    this.#known.set(key, new WeakRef(value));
    this.#forget.register(value, key);
    return value;
  }
}
