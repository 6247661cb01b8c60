import { HearthError } from '@hearth/common';
import type { S3Source } from '@hearth/common/generated/hearth/v1/control.ts';
import type { Location, ManifestRow } from '@hearth/engine';
import type { AddressPolicy } from './address_policy.ts';
import type { Connections } from './connections.ts';
import { s3DatedKey, s3EtagKey } from './content_key.ts';
import { readFirstByte } from './first_byte.ts';
import type { HttpClient } from './http_client.ts';
import { probeIfMatch } from './http_probe.ts';
import type { LocatableEntry, Origin, OriginRevision, S3Credentials } from './origin.ts';
import { RepeatedRows } from './repeated_rows.ts';
import { collectConcurrently } from './row_stream.ts';
import { encodeKey, S3Access } from './s3_access.ts';
import { type HasObject, S3Keys } from './s3_keys.ts';
import { listObjects, type S3Object } from './s3_listing.ts';
import { type AskObject, S3Validators } from './s3_validators.ts';
import { WeakValidators } from './weak_validators.ts';

const maxConcurrentRequests = 16;

export interface S3OriginOptions {
  /** Endpoint and region filled in from the environment. */
  source: S3Source;
  description: string;
  credentials: S3Credentials | undefined;
  nodeIdentity: boolean;
  connections: Connections;
  policy: AddressPolicy;
  /** HTTP client for presigned URLs. */
  client: HttpClient;
  attempts: number;
  allowWeakValidators: boolean;
  locationSeconds: number;
  /** Scope of content keys for a source with mirrors. */
  keyScope: ((key: string) => string) | undefined;
}

/**
 * A bucket, or the keys below a prefix: the prefix is a folder (`models/llama` is `models/llama/`), or one object when
 * no key is below it. Keys that end in '/' are empty directories.
 */
export class S3Origin implements Origin {
  readonly kind = 's3';
  /** Signing needs no request. */
  readonly locatesFreely = true;
  readonly #options: S3OriginOptions;
  #opening: Promise<S3Access> | undefined;
  #warnings: string[] = [];

  constructor(options: S3OriginOptions) {
    this.#options = options;
  }

  describe(): string {
    return this.#options.description;
  }

  async *list(signal: AbortSignal): AsyncGenerator<ManifestRow[]> {
    const access = await this.#access();
    const weak = new WeakValidators(this.#options.allowWeakValidators);
    const validators = new S3Validators(this.#asker(access, signal), access.context.host, weak);
    const keys = new S3Keys(access.context.host, this.#existence(access, signal));
    const repeated = new RepeatedRows(access.context.host);
    const rowOf = (object: S3Object, path: string) => this.#row(object, path, validators);
    let objects = 0;
    for await (const page of listObjects(access, this.#folder, keys, signal)) {
      objects += page.length;
      const wanted = repeated.without(page).filter(({ key }) => key !== this.#folder);
      const rows = await collectConcurrently(wanted, maxConcurrentRequests, (object) =>
        rowOf(object, object.key.slice(this.#folder.length)),
      );
      if (rows.length > 0) yield rows;
    }
    this.#warnings = [...weak.warnings(), ...repeated.warnings(), ...access.clockWarnings()];
    if (objects > 0) return;
    const object = await this.#singleObject(access, keys, signal);
    if (object === undefined) {
      throw new HearthError('NotFound', `no object exists at ${this.describe()}; check the prefix for a misspelling`);
    }
    const row = await rowOf(object, lastPart(object.key));
    this.#warnings = [...weak.warnings(), ...access.clockWarnings()];
    yield [row];
  }

  revision(): OriginRevision {
    return { name: '', warnings: this.#warnings };
  }

  base(): undefined {
    return undefined;
  }

  async locate(entries: LocatableEntry[]): Promise<Location[]> {
    const access = await this.#access();
    const keys = entries.map((entry) => this.#currentKey(entry));
    const { urls, expiresAt } = await access.presign(keys, this.#options.locationSeconds);
    return entries.map(({ index }, i) => ({
      entry: index,
      url: urls[i] ?? '',
      ...(expiresAt === undefined ? {} : { expiresAt }),
    }));
  }

  /** Bucket policies grant rights by prefix: use the first folder below the dataset's prefix. */
  partOf({ path }: ManifestRow): string {
    const slash = path.indexOf('/');
    return slash < 0 ? '' : path.slice(0, slash + 1);
  }

  async readByte(entry: LocatableEntry, signal: AbortSignal): Promise<void> {
    for (const location of await this.locate([entry])) {
      await readFirstByte(this.#options.client, location, entry, signal);
    }
  }

  close(): void {
    this.#opening?.then((access) => access.close()).catch(() => undefined);
    this.#options.connections.close();
  }

  /** The prefix as a folder: '' or ending in '/'. */
  get #folder(): string {
    const { prefix } = this.#options.source;
    return prefix === '' || prefix.endsWith('/') ? prefix : `${prefix}/`;
  }

  /** One client for all calls. After a failure the next call tries again, because credentials may arrive later. */
  #access(): Promise<S3Access> {
    const { source, credentials, nodeIdentity, connections, policy, attempts, client } = this.#options;
    const { bucket, endpoint, region, pathStyle } = source;
    this.#opening ??= S3Access.open({
      bucket,
      endpoint,
      region,
      pathStyle,
      credentials,
      nodeIdentity,
      connections,
      policy,
      attempts,
      client,
    }).catch((error) => {
      this.#opening = undefined;
      throw error;
    });
    return this.#opening;
  }

  /** The object named by the prefix itself; listings are sorted, so it comes first. */
  async #singleObject(access: S3Access, keys: S3Keys, signal: AbortSignal): Promise<S3Object | undefined> {
    const { prefix } = this.#options.source;
    if (prefix === '' || prefix.endsWith('/')) return undefined;
    for await (const [first] of listObjects(access, prefix, keys, signal))
      return first?.key === prefix ? first : undefined;
    return undefined;
  }

  /** Reads like the engine, from a presigned location of each object. */
  #asker(
    access: S3Access,
    signal: AbortSignal,
  ): (object: Pick<S3Object, 'key'>, ifMatch: string | undefined) => ReturnType<AskObject> {
    return async ({ key }, ifMatch) => {
      const { urls } = await access.presign([key], this.#options.locationSeconds);
      return await probeIfMatch(this.#options.client, new URL(urls[0] ?? ''), { ifMatch }, signal);
    };
  }

  /** Only a 404 tells that there is no such object. */
  #existence(access: S3Access, signal: AbortSignal): HasObject {
    const ask = this.#asker(access, signal);
    return async (key) => {
      try {
        await ask({ key }, undefined);
        return true;
      } catch (thrown) {
        if (signal.aborted) throw thrown;
        return HearthError.from(thrown).code === 'NotFound' ? false : undefined;
      }
    };
  }

  async #row(object: S3Object, path: string, validators: S3Validators): Promise<ManifestRow> {
    const { key, size, modified } = object;
    if (size === 0n && path.endsWith('/')) return { path: path.slice(0, -1), kind: 'directory', size };
    return {
      path,
      kind: 'file',
      size,
      ...(await validators.of(object, this.#objectUrl(key))),
      ...(modified === undefined ? {} : { modifiedAtNs: BigInt(modified.getTime()) * 1_000_000n }),
    };
  }

  /** Candidate keys of the entry; the object named by the prefix comes first. */
  #candidates(path: string): string[] {
    const { prefix } = this.#options.source;
    const below = `${this.#folder}${path}`;
    return prefix !== '' && !prefix.endsWith('/') && lastPart(prefix) === path ? [prefix, below] : [below];
  }

  #currentKey({ path, contentKey, validator, size = 0n }: LocatableEntry): string {
    const candidates = this.#candidates(path);
    const [, kind, named = ''] = /^(etag|compared-etag|modified):(.*)$/.exec(validator) ?? [];
    const { keyScope = (own: string) => own } = this.#options;
    const keyOf = (url: string) => (kind === 'modified' ? s3DatedKey(url, named, size) : s3EtagKey(url, named));
    const exact = candidates.find((key) => keyScope(keyOf(this.#objectUrl(key))) === contentKey);
    // Entries of a mirror have the source's paths, so a prefix that ends with the file's name is that object.
    return exact ?? candidates[0] ?? path;
  }

  /** The object's URL for content keys, independent of request style and region. */
  #objectUrl(key: string): string {
    const { endpoint, bucket } = this.#options.source;
    return `${endpoint === '' ? 'https://s3.amazonaws.com' : endpoint}/${bucket}/${encodeKey(key)}`;
  }
}

function lastPart(key: string): string {
  return key.slice(key.lastIndexOf('/') + 1);
}
