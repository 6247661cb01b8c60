import { HearthError } from '@hearth/common';
import type { ManifestBuilder, ManifestRow } from '@hearth/engine';
import { type FakeManifest, makeManifest, unusableReason } from './fake_fabric.ts';

/** Accepts rows, and refuses the names that the engine refuses. */
export class FakeManifestBuilder implements ManifestBuilder {
  readonly #rows: ManifestRow[] = [];
  readonly #refused: string[] = [];
  readonly #skipUnusable: boolean;

  constructor(skipUnusable: boolean) {
    this.#skipUnusable = skipUnusable;
  }

  add(added: ManifestRow[]): void {
    for (const row of added) {
      const reason = unusableReason(row.path);
      if (reason === undefined) this.#rows.push(row);
      else this.#refused.push(`${row.path}: ${reason}`);
    }
  }

  unusable(): string[] {
    return this.#refused.slice(0, 10);
  }

  finish(): FakeManifest {
    const refused = this.unusable();
    if (refused.length > 0 && !this.#skipUnusable) {
      throw new HearthError('InvalidArgument', `names that cannot be used: ${refused.join(', ')}; rename them`);
    }
    return makeManifest(this.#rows);
  }
}
