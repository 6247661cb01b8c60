/**
 * Files of one listing whose states only a digest distinguishes: when all of a file has come, and chunks are read before.
 */
export class DigestOnly {
  #count = 0;
  #first = '';

  note(path: string): void {
    if (this.#count++ === 0) this.#first = path;
  }

  /** For people. `why` there is no more, said of these files. */
  warnings(why: string): string[] {
    if (this.#count === 0) return [];
    return [
      `DigestOnly: ${this.#count} files have only a digest, as ${why} (the first is ${this.#first}); ` +
        'when such a file changes while it is fetched, who reads it at that time can get bytes of both states',
    ];
  }
}
