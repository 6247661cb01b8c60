import { objectKey } from '@hearth/common/kubernetes';
import type { Dataset } from '@hearth/common/resources';

/** Between two writes of figures that change all the time, milliseconds. */
const intervalMs = 5_000;

/**
 * When the figures that change all the time were written last. Hundreds of Datasets that are being read would else
 * have the API server busy with nothing but their progress.
 */
export class WrittenFigures {
  readonly #now: () => number;
  readonly #written = new Map<string, { text: string; at: number }>();

  /** `now`: milliseconds since the epoch. */
  constructor(now: () => number) {
    this.#now = now;
  }

  /** Milliseconds for which the figures in the status shall stay. Notices writes by the status given. */
  holdMs(dataset: Dataset): number {
    const key = objectKey(dataset);
    const text = textOf(dataset);
    const known = this.#written.get(key);
    if (known?.text !== text) this.#written.set(key, { text, at: this.#now() });
    // The first sight of a Dataset is not a write of it.
    if (known === undefined) return 0;
    const { at } = this.#written.get(key) ?? known;
    return Math.max(0, at + intervalMs - this.#now());
  }

  forget(key: string): void {
    this.#written.delete(key);
  }
}

function textOf({ status }: Dataset): string {
  const { residentBytes, percent, nodes, residency, conditions } = status ?? {};
  const listing = conditions?.find((one) => one.type === 'Ready' && one.reason === 'Listing')?.message;
  return JSON.stringify([residentBytes, percent, nodes, residency, listing]);
}
