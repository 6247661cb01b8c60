import { HearthError } from '@hearth/common';
import { Credentials } from '@hearth/common/generated/hearth/v1/control.ts';
import { unlessAborted } from '../records/index.ts';

/**
 * Credentials of datasets: in this memory, and nowhere else. Whether a dataset has some of its own is known from its
 * record, so that an agent which was started again can distinguish "none" from "not here yet".
 */
export class CredentialCache {
  readonly #known = new Map<string, Credentials>();
  readonly #hasOwn: (dataset: string) => boolean;
  readonly #listeners = new Set<(dataset: string) => void>();

  constructor(hasOwn: (dataset: string) => boolean) {
    this.#hasOwn = hasOwn;
  }

  /**
   * The credentials of a dataset; undefined when it has none, and the node's own identity applies. `Unavailable` when
   * it has some that this agent does not know: nothing else may take their place.
   */
  of(dataset: string): Credentials | undefined {
    if (!this.awaits(dataset)) return this.#known.get(dataset);
    throw new HearthError(
      'Unavailable',
      `the credentials of dataset ${dataset} are not here since the agent was started; they come from another agent or from whoever manages the dataset, then this goes on`,
    );
  }

  has(dataset: string): boolean {
    return this.#known.has(dataset);
  }

  /** True when the dataset has credentials of its own that are not here. */
  awaits(dataset: string): boolean {
    return this.#hasOwn(dataset) && !this.#known.has(dataset);
  }

  /** True when the dataset has credentials of its own, here or elsewhere. */
  isOwn(dataset: string): boolean {
    return this.#hasOwn(dataset) || this.#known.has(dataset);
  }

  /** Resolves when the credentials of the dataset are here. */
  async arrived(dataset: string, signal: AbortSignal): Promise<void> {
    if (!this.awaits(dataset)) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    const off = this.onChange((changed) => {
      if (changed === dataset && !this.awaits(dataset)) resolve();
    });
    await unlessAborted(promise, signal).finally(off);
  }

  set(dataset: string, credentials: Credentials): void {
    const present = this.#known.get(dataset);
    if (present !== undefined && isSame(present, credentials)) return;
    this.#known.set(dataset, { ...credentials });
    this.#notify(dataset);
  }

  forget(dataset: string): void {
    if (this.#known.delete(dataset)) this.#notify(dataset);
  }

  /** Notes that a dataset may have gained or lost credentials of its own. */
  touch(dataset: string): void {
    this.#notify(dataset);
  }

  /** Called after what is known of a dataset has changed. Returns the function that ends it. */
  onChange(listener: (dataset: string) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  #notify(dataset: string): void {
    for (const listener of [...this.#listeners]) listener(dataset);
  }
}

function isSame(a: Credentials, b: Credentials): boolean {
  return JSON.stringify(Credentials.toJSON(a)) === JSON.stringify(Credentials.toJSON(b));
}
