import { CsiError } from '../csi_error.ts';

/** Keys of which each is held once at a time. No call waits: the CSI specification has the caller come again. */
export class KeyedLocks {
  readonly #held = new Set<string>();

  /**
   * Runs while the keys are held, until the work has really ended, even if no caller waits for it any more. `ABORTED`
   * when one of them is held already.
   */
  async hold<T>(keys: string[], work: () => Promise<T>): Promise<T> {
    const busy = keys.find((key) => this.#held.has(key));
    if (busy !== undefined) {
      throw new CsiError('ABORTED', `an operation for ${busy} is under way; it is tried again by the kubelet`);
    }
    for (const key of keys) this.#held.add(key);
    try {
      return await work();
    } finally {
      for (const key of keys) this.#held.delete(key);
    }
  }
}
