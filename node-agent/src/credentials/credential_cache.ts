import { HearthError } from '@hearth/common';
import { Credentials } from '@hearth/common/generated/hearth/v1/control.ts';
import { unlessAborted } from '../records/index.ts';

/**
 * Credentials of datasets, kept only in memory. A dataset's record says that the dataset has credentials, so a
 * restarted agent can tell "none" from "not received yet".
 */
export class CredentialCache {
  readonly #known = new Map<string, Credentials>();
  readonly #hasOwn: (dataset: string) => boolean;
  readonly #listeners = new Set<(dataset: string) => void>();

  constructor(hasOwn: (dataset: string) => boolean) {
    this.#hasOwn = hasOwn;
  }

  /**
   * The credentials of a dataset; undefined when it has none and the node's own identity applies. Throws `Unavailable`
   * when this agent has not received them, because nothing else may take their place.
   */
  of(dataset: string): Credentials | undefined {
    if (!this.awaits(dataset)) return this.#known.get(dataset);
    throw new HearthError(
      'Unavailable',
      `the agent has not received the credentials of dataset ${dataset} since its start; the request continues when another agent or the manager of the dataset sends them`,
    );
  }

  has(dataset: string): boolean {
    return this.#known.has(dataset);
  }

  /** True when the dataset has credentials that this agent has not received. */
  awaits(dataset: string): boolean {
    return this.#hasOwn(dataset) && !this.#known.has(dataset);
  }

  /** True when the dataset has credentials, received or not. */
  isOwn(dataset: string): boolean {
    return this.#hasOwn(dataset) || this.#known.has(dataset);
  }

  /** Resolves when this agent has received the dataset's credentials. */
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

  /** Call when a dataset may have gained or lost credentials. */
  touch(dataset: string): void {
    this.#notify(dataset);
  }

  /** Calls the listener when the state of a dataset's credentials changed. Returns a function that unsubscribes. */
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
