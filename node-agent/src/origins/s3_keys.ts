import { HearthError } from '@hearth/common';

/** Asks whether an object exists; undefined: the server does not tell. */
export type HasObject = (key: string) => Promise<boolean | undefined>;

/** A key as the server lists it. */
export interface ListedKey {
  key: string;
  size: bigint;
}

/** Characters that every percent-encoding escapes, and percent signs that escape nothing. */
const neverEncoded = /[^\x21-\x7e]|["#<>?\\^`{|}]|%(?![0-9A-Fa-f]{2})/;

/**
 * Decodes the keys of one listing. Some servers announce percent-encoded keys (EncodingType) and send them raw. One key
 * that no encoding produces shows that; where no key does, the first key that would decode to another one is requested
 * both ways.
 */
export class S3Keys {
  readonly #host: string;
  readonly #hasObject: HasObject;
  #areRaw: boolean | undefined;

  constructor(host: string, hasObject: HasObject) {
    this.#host = host;
    this.#hasObject = hasObject;
  }

  /**
   * The keys of one page, in order. `encoding`: the page's EncodingType. Throws `InvalidArgument` for a key that is not
   * UTF-8, and `ProtocolError` when the server has no object under a listed key, raw or decoded.
   */
  async decode(page: readonly ListedKey[], encoding: string | undefined): Promise<string[]> {
    const keys = page.map(({ key }) => key);
    if (encoding !== 'url') return keys;
    const raw = keys.find((key) => neverEncoded.test(key));
    if (raw !== undefined && this.#areRaw === false) throw this.#lie(raw, 'and encoded others');
    if (raw !== undefined) this.#areRaw = true;
    const ambiguous = page.find(({ key, size }) => size > 0n && decoded(key) !== key);
    if (this.#areRaw === undefined && ambiguous !== undefined) this.#areRaw = await this.#isRaw(ambiguous.key);
    return this.#areRaw === true ? keys : keys.map((key) => decoded(key) ?? this.#refuse(key));
  }

  async #isRaw(key: string): Promise<boolean> {
    const plain = decoded(key);
    if (plain !== undefined && (await this.#hasObject(plain)) !== false) return false;
    if ((await this.#hasObject(key)) === true) return true;
    if (plain === undefined) return this.#refuse(key);
    throw this.#lie(key, 'and has no such object, neither as the key stands there nor decoded');
  }

  #refuse(key: string): never {
    throw new HearthError('InvalidArgument', `the key "${key}" is not UTF-8 and cannot be a path; rename the object`);
  }

  #lie(key: string, how: string): HearthError {
    return new HearthError(
      'ProtocolError',
      `${this.#host} announces percent-encoded keys, lists "${key}" ${how}; correct the server, or list it again when nothing deletes objects`,
    );
  }
}

/** Decodes percent-encoding with '+' for a space, as the S3 API encodes keys. Undefined for bytes that are not UTF-8. */
function decoded(key: string): string | undefined {
  try {
    return decodeURIComponent(key.replaceAll('+', ' '));
  } catch {
    return undefined;
  }
}
