import { HearthError } from '@hearth/common';
import { s3DatedKey, s3EtagKey } from './content_key.ts';
import type { HttpFileFacts } from './http_probe.ts';
import type { S3Object } from './s3_listing.ts';
import type { WeakValidators } from './weak_validators.ts';

/** Requests one byte of an object like the engine; `condition` is the If-Match header. Undefined for 412. */
export type AskObject = (object: S3Object, condition: string | undefined) => Promise<HttpFileFacts | undefined>;

/** Identifies the state of one object. */
export interface ObjectState {
  validator: string;
  contentKey: string;
}

/**
 * How GET identifies the states of a kind's objects, learned from one object:
 *
 *   listed    by the listing's ETag, with If-Match
 *   compared  by the listing's ETag, compared with each response, because the server answers If-Match with 412
 *   own       by a stable ETag other than the listing's, requested for each object
 *   dated     by Last-Modified alone, from the listing (`asListed`) or requested for each object
 */
type Naming = { by: 'listed' | 'compared' | 'own' } | { by: 'dated'; asListed: boolean; why: string };

/** Maximum number of unreadable or missing objects of a kind before the listing's validators are trusted. */
const maxUnreadable = 4;

/**
 * Determines the validators of a bucket's objects. A listing and GET may disagree about ETags, depending on gateway,
 * storage class and upload method, so one object of each kind is read like the engine reads it. For one listing.
 */
export class S3Validators {
  readonly #ask: AskObject;
  readonly #host: string;
  readonly #weak: WeakValidators;
  readonly #kinds = new Map<string, { naming: Promise<Naming | undefined>; unreadable: number }>();

  constructor(ask: AskObject, host: string, weak: WeakValidators) {
    this.#ask = ask;
    this.#host = host;
    this.#weak = weak;
  }

  /**
   * `url`: the object's, for the content key. Throws `InvalidArgument` for an object whose changes could go unnoticed,
   * `OriginChanged` when the size differs from the listing, `Unsupported` for a server without ranges.
   */
  async of(object: S3Object, url: string): Promise<ObjectState> {
    // The engine never requests bytes of an empty object.
    const naming: Naming = object.size === 0n ? { by: 'listed' } : await this.#namingOf(object);
    switch (naming.by) {
      case 'listed':
        return { validator: object.etag === '' ? '' : `etag:${object.etag}`, contentKey: s3EtagKey(url, object.etag) };
      case 'compared':
        return { validator: `compared-etag:${object.etag}`, contentKey: s3EtagKey(url, object.etag) };
      case 'own': {
        const facts = await this.#facts(object, undefined);
        if (facts?.etag === undefined) return this.#dated(object, url, facts?.lastModified, this.#withoutEtag());
        return { validator: `compared-etag:${facts.etag}`, contentKey: s3EtagKey(url, facts.etag) };
      }
      case 'dated': {
        const date = naming.asListed ? httpDate(object) : (await this.#facts(object, undefined))?.lastModified;
        return this.#dated(object, url, date, naming.why);
      }
    }
  }

  #dated({ key, size }: S3Object, url: string, date: string | undefined, why: string): ObjectState {
    if (date === undefined) {
      throw new HearthError(
        'InvalidArgument',
        `${key} has no usable validator: ${why}, and no Last-Modified, so a change could not be noticed; ` +
          'correct the gateway, or copy the objects to a server that sends ETags',
      );
    }
    this.#weak.note(key, why);
    return { validator: `modified:${date}`, contentKey: s3DatedKey(url, date, size) };
  }

  async #namingOf(object: S3Object): Promise<Naming> {
    const kind = JSON.stringify([object.storageClass, object.etag === '', object.etag.includes('-')]);
    for (;;) {
      const known = this.#kinds.get(kind) ?? { naming: this.#tryNaming(object), unreadable: 0 };
      this.#kinds.set(kind, known);
      const { naming } = known;
      const found = await naming;
      if (found !== undefined) return found;
      // The reading proof reports the error; the next object determines the kind's validators.
      if (known.naming !== naming) continue;
      if (++known.unreadable < maxUnreadable) this.#kinds.delete(kind);
      return { by: 'listed' };
    }
  }

  /** Undefined for an object that is unreadable or gone. */
  async #tryNaming(object: S3Object): Promise<Naming | undefined> {
    try {
      return await this.#see(object);
    } catch (thrown) {
      if (['PermissionDenied', 'Unauthenticated', 'NotFound'].includes(HearthError.from(thrown).code)) return undefined;
      throw thrown;
    }
  }

  async #see(object: S3Object): Promise<Naming> {
    const conditional = object.etag === '' ? undefined : await this.#facts(object, object.etag);
    if (conditional?.etag === object.etag) return { by: conditional.isQuoted ? 'listed' : 'compared' };
    const plain = await this.#facts(object, undefined);
    if (plain?.etag !== undefined && plain.etag === object.etag) return { by: 'compared' };
    const again = await this.#facts(object, undefined);
    if (plain?.etag !== undefined && plain.etag === again?.etag) return { by: 'own' };
    const date = plain?.lastModified === again?.lastModified ? plain?.lastModified : undefined;
    const why = plain?.etag === undefined ? this.#withoutEtag() : `${this.#host} sends another ETag for each request`;
    if (date === undefined) this.#dated(object, '', undefined, why);
    return { by: 'dated', asListed: date === httpDate(object), why };
  }

  async #facts(object: S3Object, condition: string | undefined): Promise<HttpFileFacts | undefined> {
    const facts = await this.#ask(object, condition);
    if (facts === undefined || facts.size === object.size) return facts;
    throw new HearthError(
      'OriginChanged',
      `${this.#host} lists ${object.key} with ${object.size} bytes and serves ${facts.size}; ` +
        'add it again when nothing writes to it, or correct the gateway',
    );
  }

  #withoutEtag(): string {
    return `${this.#host} lists ETags and sends none with the object`;
  }
}

/** The listing's date in the format of HTTP headers (RFC 9110, 5.6.7). */
function httpDate({ modified }: S3Object): string | undefined {
  return modified?.toUTCString();
}
