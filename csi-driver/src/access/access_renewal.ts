import { HearthError } from '@hearth/common';
import { CsiError } from '../csi_error.ts';
import { type LookParts, RecurringLook } from '../recurring_look.ts';
import type { AccessRecords } from './access_records.ts';

export interface AccessRenewalParts extends LookParts {
  records: Pick<AccessRecords, 'all'>;
  /** Gives the folder at a target a new token. */
  renew: (target: string) => Promise<void>;
  /** Milliseconds between two renewals of a folder: a small part of a token's life. */
  renewMs: number;
}

const never = Number.NEGATIVE_INFINITY;

/**
 * Renews the tokens of pods long before they expire, so that an agent may be away for most of a token's life. Keeps nothing
 * that a restart loses: the first look renews every folder.
 */
export class AccessRenewal extends RecurringLook {
  readonly #parts: AccessRenewalParts;
  /** By record: when it was renewed last, and the last failure since. */
  #renewed = new Map<string, { at: number; failure: string }>();

  constructor(parts: AccessRenewalParts) {
    super(parts, 'the tokens of pods cannot be renewed');
    this.#parts = parts;
  }

  /** The next look renews a folder for which this one failed. */
  protected async mend(): Promise<void> {
    const { records, renewMs } = this.#parts;
    const stored = await records.all();
    const ids = new Set(stored.map(({ id }) => id));
    for (const id of this.#renewed.keys()) if (!ids.has(id)) this.#renewed.delete(id);
    const due = stored.filter(({ id }) => this.clock.now() - (this.#renewed.get(id)?.at ?? never) >= renewMs);
    const renewEach = async (ofOne: typeof due) => {
      for (const { id, record } of ofOne) if (record !== undefined) await this.#renew(id, record.target);
    };
    // The agents of clusters at once: one that is slow to answer holds up only its own pods.
    await Promise.all([...Map.groupBy(due, ({ cluster }) => cluster).values()].map(renewEach));
  }

  async #renew(id: string, target: string): Promise<void> {
    const { renew, logger } = this.#parts;
    const { at = never, failure = '' } = this.#renewed.get(id) ?? {};
    try {
      await renew(target);
      this.#renewed.set(id, { at: this.clock.now(), failure: '' });
    } catch (thrown) {
      // It is being published or unpublished.
      if (thrown instanceof CsiError && thrown.status === 'ABORTED') return;
      const error = HearthError.from(thrown);
      if (error.message !== failure) logger.warn('the token of a pod is not renewed yet', { target, error });
      this.#renewed.set(id, { at, failure: error.message });
    }
  }
}
