import { HearthError } from '@hearth/common';

/** Reads permitted objects and collects sentences about forbidden ones. */
export class PermittedReads {
  readonly unseen = new Set<string>();
  readonly #forbidden = new Set<string>();

  /** `what`: plural of the kind. Undefined: the user may not read it. */
  async read<T>(what: string, read: () => Promise<T>): Promise<T | undefined> {
    try {
      return await read();
    } catch (thrown) {
      const error = HearthError.from(thrown);
      if (error.code !== 'PermissionDenied') throw error;
      this.#forbidden.add(what);
      this.unseen.add(`you may not read ${what}, so facts that depend on them are unknown`);
      return undefined;
    }
  }

  isForbidden(what: string): boolean {
    return this.#forbidden.has(what);
  }
}
