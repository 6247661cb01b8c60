import { type Clock, HearthError } from '@hearth/common';

/** Processes that may be there at once, those counted too that were killed and that the kernel has not let go yet. */
export interface PlaceLimits {
  /** Of one tree. */
  ofTree: number;
  /** Of all trees. */
  inAll: number;
  /** The same when these are all taken, perhaps by trees of one server that hangs: beyond `inAll` a tree has one. */
  whenHanging: number;
  /** A tree that gets on with nothing for so long hangs, milliseconds. */
  stallMs: number;
}

interface Waiter {
  tree: string;
  admit(): void;
}

/** Places for processes that may hang, so that a file system without a server takes none from the others. */
export class DirectoryPlaces {
  readonly #limits: PlaceLimits;
  readonly #clock: Clock;
  readonly #taken = new Map<string, number>();
  readonly #movedAt = new Map<string, number>();
  #inAll = 0;
  readonly #waiting = new Set<Waiter>();

  constructor(limits: PlaceLimits, clock: Clock) {
    this.#limits = limits;
    this.#clock = clock;
  }

  /** Waits for a place of a tree, which `give` takes back. `Unavailable`: the tree hangs; `Cancelled`. */
  async take(tree: string, signal: AbortSignal): Promise<void> {
    if (this.#isFree(tree)) return this.#count(tree, 1);
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const waiter = { tree, admit: resolve };
    const fail = (error: HearthError) => {
      this.#waiting.delete(waiter);
      reject(error);
    };
    const cancelled = () => fail(new HearthError('Cancelled', `the wait for ${tree} was cancelled`));
    let cancel = () => {};
    const watch = (ms: number) => {
      cancel = this.#clock.schedule(ms, () => {
        const left = (this.#movedAt.get(tree) ?? 0) + this.#limits.stallMs - this.#clock.now();
        if (left > 0) watch(left);
        else fail(hanging(tree));
      });
    };
    watch(this.#limits.stallMs);
    this.#waiting.add(waiter);
    signal.addEventListener('abort', cancelled, { once: true });
    try {
      await promise;
    } finally {
      cancel();
      signal.removeEventListener('abort', cancelled);
    }
  }

  /** A process of the tree has ended. */
  give(tree: string): void {
    this.#count(tree, -1);
    for (const waiter of this.#waiting) {
      if (!this.#isFree(waiter.tree)) continue;
      this.#waiting.delete(waiter);
      this.#count(waiter.tree, 1);
      waiter.admit();
    }
  }

  /** A call on the tree got on. */
  moved(tree: string): void {
    if (this.#taken.has(tree)) this.#movedAt.set(tree, this.#clock.now());
  }

  #isFree(tree: string): boolean {
    const { ofTree, inAll, whenHanging } = this.#limits;
    const taken = this.#taken.get(tree) ?? 0;
    return taken < ofTree && (this.#inAll < inAll || (taken === 0 && this.#inAll < whenHanging));
  }

  #count(tree: string, by: 1 | -1): void {
    this.#inAll += by;
    const taken = (this.#taken.get(tree) ?? 0) + by;
    if (taken > 0) this.#taken.set(tree, taken);
    else {
      this.#taken.delete(tree);
      this.#movedAt.delete(tree);
    }
  }
}

function hanging(tree: string): HearthError {
  return new HearthError(
    'Unavailable',
    `the file system at ${tree} does not answer: earlier calls on it hang; look at its server and at the kernel log, or remove the datasets that lie there`,
  );
}
