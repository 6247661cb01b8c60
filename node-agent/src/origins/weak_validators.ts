import { HearthError } from '@hearth/common';

/**
 * Files of one listing without a digest or strong validator. When such a file changes at the origin, chunks of two
 * states can mix unnoticed.
 */
export class WeakValidators {
  readonly #allowed: boolean;
  #count = 0;
  #first = '';

  /** `allowed`: `Source.allowWeakValidators`. */
  constructor(allowed: boolean) {
    this.#allowed = allowed;
  }

  /**
   * `why`: the validator that the origin offers instead. Throws `InvalidArgument` unless weak validators are allowed.
   */
  note(path: string, why: string): void {
    if (!this.#allowed) {
      throw new HearthError(
        'InvalidArgument',
        `WeakValidator: ${path} has neither a digest nor a strong validator (${why}), so old and new bytes could be mixed ` +
          'when it changes; give its SHA-256, serve it with a strong ETag, or accept that (weakValidators: Allow, --allow-weak-validators)',
      );
    }
    if (this.#count++ === 0) this.#first = path;
  }

  warnings(): string[] {
    if (this.#count === 0) return [];
    return [
      `WeakValidator: ${this.#count} files have neither a digest nor a strong validator (the first is ${this.#first}); ` +
        'agents may notice a change at the origin late, or not at all',
    ];
  }
}
