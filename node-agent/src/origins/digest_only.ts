/**
 * Files of one listing with only a digest to tell their states apart. A digest can be checked only when the whole file
 * has arrived, but readers get chunks earlier.
 */
export class DigestOnly {
  #count = 0;
  #first = '';

  note(path: string): void {
    if (this.#count++ === 0) this.#first = path;
  }

  /** Warnings for people. `why`: the reason that these files have no validator. */
  warnings(why: string): string[] {
    if (this.#count === 0) return [];
    return [
      `DigestOnly: ${this.#count} files have only a digest, as ${why} (the first is ${this.#first}); ` +
        'when such a file changes during a fetch, a concurrent reader may get bytes of both states',
    ];
  }
}
