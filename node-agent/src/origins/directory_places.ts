import { type Clock, HearthError } from '@hearth/common';

/** Maximum numbers of processes, including killed ones that the kernel still holds. */
export interface PlaceLimits {
  /** Per tree. */
  ofTree: number;
  /** Over all trees. */
  inAll: number;
  /** Over all trees while `inAll` processes may be stuck with one dead server: beyond `inAll`, one for each tree. */
  whenHanging: number;
  /** A tree without progress for this time hangs, ms. */
  stallMs: number;
}

interface Waiter {
  tree: string;
  admit(): void;
}

/** Slots for processes that may hang, so that one dead file system does not block others. */
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

  /** Waits for a slot of a tree; release it with `give`. Throws `Unavailable` when the tree hangs, and `Cancelled`. */
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

  /** Call when a process of the tree has ended. */
  give(tree: string): void {
    this.#count(tree, -1);
    for (const waiter of this.#waiting) {
      if (!this.#isFree(waiter.tree)) continue;
      this.#waiting.delete(waiter);
      this.#count(waiter.tree, 1);
      waiter.admit();
    }
  }

  /** Call when a call on the tree made progress. */
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
    `the file system at ${tree} does not answer: earlier calls on it hang; check its server and the kernel log, or remove the datasets there`,
  );
}
