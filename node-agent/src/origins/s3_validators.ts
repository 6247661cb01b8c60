import { HearthError } from '@hearth/common';
import { s3DatedKey, s3EtagKey } from './content_key.ts';
import type { HttpFileFacts } from './http_probe.ts';
import type { S3Object } from './s3_listing.ts';
import type { WeakValidators } from './weak_validators.ts';

/** One byte of an object asked for as the engine asks: `condition` is an If-Match header. Undefined: answered 412. */
export type AskObject = (object: S3Object, condition: string | undefined) => Promise<HttpFileFacts | undefined>;

/** Identifies the state of one object. */
export interface ObjectState {
  validator: string;
  contentKey: string;
}

/**
 * How GET names the states of objects, seen in one of them:
 *
 *   listed    by the ETag of the listing, and If-Match is understood
 *   compared  by the ETag of the listing, but If-Match is answered 412: the ETag of each answer is compared instead
 *   own       by a stable ETag other than the listing's: each object is asked for its own
 *   dated     by Last-Modified alone, which the listing says as well (`asListed`) or each object is asked for
 */
type Naming = { by: 'listed' | 'compared' | 'own' } | { by: 'dated'; asListed: boolean; why: string };

/** Objects of a kind that may not be read, or have gone, until the listing's word is taken for the kind. */
const maxUnreadable = 4;

/**
 * Finds what the validators of a bucket's objects are. A listing and GET may disagree about ETags, by the gateway, the
 * storage class and the way of upload, so one object of each kind is read as the engine will read it. One listing.
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
   * `url`: the object's, for the content key. `InvalidArgument` for an object whose changes could not be noticed,
   * `OriginChanged` for one that has another size than its listing says, `Unsupported` for a server without ranges.
   */
  async of(object: S3Object, url: string): Promise<ObjectState> {
    // Nothing of an empty object is ever asked for.
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
      // The reading proof says why; the next object shows how the others of the kind are named.
      if (known.naming !== naming) continue;
      if (++known.unreadable < maxUnreadable) this.#kinds.delete(kind);
      return { by: 'listed' };
    }
  }

  /** Undefined for an object that may not be read, or is gone. */
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

/** The listing's date as HTTP headers have it (RFC 9110, 5.6.7). */
function httpDate({ modified }: S3Object): string | undefined {
  return modified?.toUTCString();
}
