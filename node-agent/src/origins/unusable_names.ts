import { HearthError } from '@hearth/common';

const shown = 10;

/**
 * Names that the origin cannot pass on: bytes that are not UTF-8, sockets and devices. The manifest's builder refuses
 * other invalid names. Fails the revision with the first ten names, or counts them when skipped.
 */
export class UnusableNames {
  readonly #skip: boolean;
  readonly #first: string[] = [];
  #count = 0;

  /** `policy`: `Source.unusableNames`, "Fail" (or empty) or "Skip". */
  constructor(policy: string) {
    if (policy !== '' && policy !== 'Fail' && policy !== 'Skip') {
      throw new HearthError('InvalidArgument', `unusableNames is "${policy}", but must be "Fail" or "Skip"`);
    }
    this.#skip = policy === 'Skip';
  }

  add(name: string, reason: string): void {
    this.#count++;
    if (this.#first.length < shown) this.#first.push(`${name}: ${reason}`);
  }

  /** At the end of a listing: returns warnings about skipped names, or throws `InvalidArgument`. */
  finish(): string[] {
    if (this.#count === 0) return [];
    const rest = this.#count > this.#first.length ? `; and ${this.#count - this.#first.length} more` : '';
    const list = `${this.#first.join('; ')}${rest}`;
    if (this.#skip) return [`UnusableNames: ${this.#count} left out: ${list}`];
    throw new HearthError(
      'InvalidArgument',
      `${this.#count} names of the origin cannot be used: ${list}. Remove or rename them, or skip them with unusableNames: Skip`,
    );
  }
}

/** Bytes as text: printable ASCII unchanged, other bytes as \xNN. */
export function escapeBytes(bytes: Uint8Array): string {
  let text = '';
  for (const byte of bytes) {
    text +=
      byte >= 0x20 && byte < 0x7f && byte !== 0x5c
        ? String.fromCharCode(byte)
        : `\\x${byte.toString(16).padStart(2, '0')}`;
  }
  return text;
}
