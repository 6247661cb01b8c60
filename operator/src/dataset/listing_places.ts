/**
 * Places for what may run at the same time. One namespace has three of four at most, so that origins that never end
 * listing keep no other tenant from theirs.
 */
export class ListingPlaces {
  readonly #perNamespace: number;
  readonly #taken = new Map<string, number>();
  readonly #waiting: { namespace: string; begin: () => void }[] = [];
  #free: number;

  constructor(total: number) {
    this.#free = total;
    this.#perNamespace = Math.ceil((total * 3) / 4);
  }

  /** Resolves when the place is had. Who came first gets the next one that its namespace may have. */
  async take(namespace: string): Promise<void> {
    if (this.#mayTake(namespace)) this.#count(namespace, 1);
    else await new Promise<void>((begin) => this.#waiting.push({ namespace, begin }));
  }

  give(namespace: string): void {
    this.#count(namespace, -1);
    const next = this.#waiting.findIndex((one) => this.#mayTake(one.namespace));
    if (next < 0) return;
    // Taken for it at once, so that none overtakes.
    const [first] = this.#waiting.splice(next, 1);
    this.#count(first?.namespace ?? '', 1);
    first?.begin();
  }

  #mayTake(namespace: string): boolean {
    return this.#free > 0 && (this.#taken.get(namespace) ?? 0) < this.#perNamespace;
  }

  #count(namespace: string, change: 1 | -1): void {
    this.#free -= change;
    const taken = (this.#taken.get(namespace) ?? 0) + change;
    if (taken === 0) this.#taken.delete(namespace);
    else this.#taken.set(namespace, taken);
  }
}
