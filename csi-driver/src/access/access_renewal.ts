import { HearthError } from '@hearth/common';
import { CsiError } from '../csi_error.ts';
import { type CheckParts, PeriodicCheck } from '../periodic_check.ts';
import type { AccessRecords } from './client_access.ts';

export interface AccessRenewalParts extends CheckParts {
  records: Pick<AccessRecords, 'all'>;
  /** Writes a new token into the target. */
  renew: (target: string) => Promise<void>;
  /** The pause between two renewals of a target, a small part of a token's life, ms. */
  renewMs: number;
}

const never = Number.NEGATIVE_INFINITY;

/** Renews tokens long before they expire. The first check after a restart renews every target. */
export class AccessRenewal extends PeriodicCheck {
  readonly #parts: AccessRenewalParts;
  /** The last renewal and the last failure since, by record. */
  #renewed = new Map<string, { at: number; failure: string }>();

  constructor(parts: AccessRenewalParts) {
    super(parts, 'the tokens of pods cannot be renewed');
    this.#parts = parts;
  }

  protected async repair(): Promise<void> {
    const { records, renewMs } = this.#parts;
    const stored = await records.all();
    const ids = new Set(stored.map(({ id }) => id));
    for (const id of this.#renewed.keys()) if (!ids.has(id)) this.#renewed.delete(id);
    const due = stored.filter(({ id }) => this.clock.now() - (this.#renewed.get(id)?.at ?? never) >= renewMs);
    const renewEach = async (ofOne: typeof due) => {
      for (const { id, record } of ofOne) if (record !== undefined) await this.#renew(id, record.target);
    };
    // Clusters in parallel, so that a slow agent delays only its own pods.
    await Promise.all([...Map.groupBy(due, ({ cluster }) => cluster).values()].map(renewEach));
  }

  async #renew(id: string, target: string): Promise<void> {
    const { renew, logger } = this.#parts;
    const { at = never, failure = '' } = this.#renewed.get(id) ?? {};
    try {
      await renew(target);
      this.#renewed.set(id, { at: this.clock.now(), failure: '' });
    } catch (thrown) {
      // Another operation holds the target.
      if (thrown instanceof CsiError && thrown.status === 'ABORTED') return;
      const error = HearthError.from(thrown);
      if (error.message !== failure) logger.warn('the token of a pod is not renewed yet', { target, error });
      this.#renewed.set(id, { at, failure: error.message });
    }
  }
}
