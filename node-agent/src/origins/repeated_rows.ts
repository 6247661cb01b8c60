import { HearthError } from '@hearth/common';
import type { S3Object } from './s3_listing.ts';

/**
 * Objects that a listing gives twice: below a folder marker, or at the end of a page and the beginning of the next. Equal
 * ones are one file. Repetitions follow each other in a sorted listing; the manifest's builder treats others alike.
 */
export class RepeatedRows {
  readonly #host: string;
  #last: S3Object | undefined;
  #count = 0;
  #first = '';

  constructor(host: string) {
    this.#host = host;
  }

  /** The objects of the next page, each once. Throws `ProtocolError` for two of one key that differ. */
  without(page: readonly S3Object[]): S3Object[] {
    return page.filter((object) => {
      const before = this.#last;
      this.#last = object;
      if (before?.key !== object.key) return true;
      if (before.size !== object.size || before.etag !== object.etag) throw this.#differing(before, object);
      if (this.#count++ === 0) this.#first = object.key;
      return false;
    });
  }

  warnings(): string[] {
    if (this.#count === 0) return [];
    return [
      `RepeatedRows: ${this.#host} listed ${this.#count} objects twice (the first is ${this.#first}); each is one file`,
    ];
  }

  #differing(before: S3Object, now: S3Object): HearthError {
    const facts = ({ size, etag }: S3Object) => `${size} bytes${etag === '' ? '' : ` and ETag ${etag}`}`;
    return new HearthError(
      'ProtocolError',
      `${this.#host} lists ${now.key} twice, with ${facts(before)} and with ${facts(now)}; list it again when nothing writes to it, or correct the server`,
    );
  }
}
