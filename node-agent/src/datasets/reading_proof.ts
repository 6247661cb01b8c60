import { HearthError } from '@hearth/common';
import type { ManifestRow } from '@hearth/engine';
import { collectConcurrently, type Origin } from '../origins/index.ts';

/** Maximum number of parts that are checked. */
const maxParts = 1000;
const maxConcurrentReads = 16;

/**
 * Proves that the credentials that list an origin may also read it: reads one byte of the first and last file of each
 * part, divided by the origin by read permissions. Checks the first thousand listed parts.
 */
export class ReadingProof {
  readonly #origin: Origin;
  readonly #parts = new Map<string, { first: ManifestRow; last: ManifestRow }>();

  constructor(origin: Origin) {
    this.#origin = origin;
  }

  /** Records rows of the future dataset. */
  note(rows: readonly ManifestRow[]): void {
    for (const row of rows) {
      if (row.kind !== 'file' || row.size === 0n) continue;
      const name = this.#origin.partOf(row);
      const part = this.#parts.get(name);
      if (part !== undefined) part.last = row;
      else if (this.#parts.size < maxParts) this.#parts.set(name, { first: row, last: row });
    }
  }

  /** Throws `PermissionDenied` with the unreadable file; other errors of the origin unchanged. */
  async read(signal: AbortSignal): Promise<void> {
    const rows = [...this.#parts.values()].flatMap(({ first, last }) => (first === last ? [first] : [first, last]));
    await collectConcurrently(rows, maxConcurrentReads, (row) => this.#readByte(row, signal));
  }

  async #readByte({ path, contentKey = '', validator = '', size }: ManifestRow, signal: AbortSignal): Promise<void> {
    try {
      await this.#origin.readByte({ index: 0, path, contentKey, validator, size }, signal);
    } catch (thrown) {
      const error = HearthError.from(thrown);
      if (error.code !== 'PermissionDenied' && error.code !== 'Unauthenticated') throw error;
      const message = `the origin lists ${path}, but refuses to serve it: ${error.message}`;
      throw new HearthError('PermissionDenied', message, { cause: error });
    }
  }
}
