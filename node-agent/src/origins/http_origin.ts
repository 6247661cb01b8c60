import { HearthError } from '@hearth/common';
import type { HttpSource } from '@hearth/common/generated/hearth/v1/control.ts';
import type { Location, ManifestRow } from '@hearth/engine';
import { digestKey, httpEtagKey, httpModifiedKey } from './content_key.ts';
import { DigestOnly } from './digest_only.ts';
import { readFirstByte } from './first_byte.ts';
import type { HttpClient } from './http_client.ts';
import { type IndexedName, walkIndex } from './http_index.ts';
import { type HttpFileFacts, probeFile, probeIfMatch } from './http_probe.ts';
import { findBelow, type HttpRoot, httpRoots, locateBelow } from './http_roots.ts';
import type { LocatableEntry, Origin, OriginBase, OriginRevision } from './origin.ts';
import { printableUrl } from './printable_url.ts';
import { inPages, mapConcurrently } from './row_stream.ts';
import { UnusableNames } from './unusable_names.ts';
import { WeakValidators } from './weak_validators.ts';

const maxConcurrentRequests = 16;

export interface HttpOriginOptions {
  source: HttpSource;
  description: string;
  unusableNames: string;
  allowWeakValidators: boolean;
  /** Bearer token for the hosts of the source. */
  token: string | undefined;
  client: HttpClient;
}

/** Files and index pages of HTTP(S) servers. */
export class HttpOrigin implements Origin {
  readonly kind = 'http';
  readonly locatesFreely = true;
  readonly #options: HttpOriginOptions;
  readonly #roots: HttpRoot[];
  readonly #authorization: string | undefined;
  #warnings: string[] = [];

  constructor(options: HttpOriginOptions) {
    this.#options = options;
    this.#roots = httpRoots(options.source.urls);
    this.#authorization = options.token === undefined ? undefined : `Bearer ${options.token}`;
  }

  describe(): string {
    return this.#options.description;
  }

  async *list(signal: AbortSignal): AsyncGenerator<ManifestRow[]> {
    const unusable = new UnusableNames(this.#options.unusableNames);
    const seen = new Observations(this.#options.allowWeakValidators);
    const conditional = new Map<string, Promise<boolean>>();
    yield* inPages(
      mapConcurrently(
        this.#names(unusable, signal),
        maxConcurrentRequests,
        async ({ path, kind, url }): Promise<ManifestRow> => {
          if (kind === 'emptyFolder') return { path, kind: 'directory', size: 0n };
          const facts = await probeFile(this.#options.client, url, this.#authorization, signal);
          const isConditional = await this.#takesConditions(conditional, url, facts, signal);
          return seen.note(path, url, facts, { sha256: this.#options.source.sha256[path], isConditional });
        },
      ),
    );
    this.#warnings = [...seen.warnings(), ...unusable.finish()];
  }

  revision(): OriginRevision {
    return { name: '', warnings: this.#warnings };
  }

  /** The engine follows redirects itself and sends the headers only to the URL's host. */
  base(): OriginBase | undefined {
    const folders = new Set(this.#roots.map(({ folder }) => folder));
    const [folder] = folders;
    if (folder === undefined || folders.size > 1) return undefined;
    return { url: folder, ...this.#headers() };
  }

  async locate(entries: LocatableEntry[], _signal?: AbortSignal, allowMissing = false): Promise<Location[]> {
    return entries.flatMap(({ index, path }) => {
      const url = allowMissing ? findBelow(this.#roots, path) : locateBelow(this.#roots, path);
      return url === undefined ? [] : [{ entry: index, url: url.href, ...this.#headers() }];
    });
  }

  /** The listing has read a byte of every file. */
  partOf(): string {
    return '';
  }

  async readByte(entry: LocatableEntry, signal: AbortSignal): Promise<void> {
    for (const location of await this.locate([entry]))
      await readFirstByte(this.#options.client, location, entry, signal);
  }

  close(): void {
    this.#options.client.close();
  }

  /**
   * True when the file's server accepts its ETag in If-Match. Asks each server once (`known`), for a non-empty file.
   */
  async #takesConditions(
    known: Map<string, Promise<boolean>>,
    url: URL,
    { etag, size, isQuoted, servedBy }: HttpFileFacts,
    signal: AbortSignal,
  ): Promise<boolean> {
    if (etag === undefined || size === 0n || !isQuoted) return isQuoted;
    const ask = async () => {
      const condition = { authorization: this.#authorization, ifMatch: etag };
      return (await probeIfMatch(this.#options.client, url, condition, signal)) !== undefined;
    };
    const answer = known.get(servedBy.host) ?? ask();
    known.set(servedBy.host, answer);
    return await answer;
  }

  #headers(): { headers?: Record<string, string> } {
    return this.#authorization === undefined ? {} : { headers: { authorization: this.#authorization } };
  }

  async *#names(unusable: UnusableNames, signal: AbortSignal): AsyncGenerator<IndexedName> {
    for (const { url, path, index } of this.#roots) {
      if (!index) {
        yield { path, kind: 'file', url };
        continue;
      }
      const prefix = path === '' ? '' : `${path}/`;
      for await (const name of walkIndex(this.#options.client, url, this.#authorization, unusable, signal)) {
        yield { ...name, path: `${prefix}${name.path}` };
      }
    }
  }
}

/** Converts servers' answers to rows and collects warnings. */
class Observations {
  readonly #weak: WeakValidators;
  readonly #redirected = new Map<string, string>();
  readonly #digestOnly = new DigestOnly();

  constructor(allowWeak: boolean) {
    this.#weak = new WeakValidators(allowWeak);
  }

  /**
   * Throws `InvalidArgument` when the file has no validator. `sha256`: given by the source. `isConditional`: result of
   * `takesConditions`.
   */
  note(
    path: string,
    url: URL,
    facts: HttpFileFacts,
    { sha256, isConditional }: { sha256: string | undefined; isConditional: boolean },
  ): ManifestRow {
    const tagged = isConditional ? 'etag' : 'compared-etag';
    const { size, etag, lastModified, servedBy } = facts;
    if (servedBy.host !== url.host) this.#redirected.set(url.host, servedBy.host);
    const row: ManifestRow = {
      path,
      kind: 'file',
      size,
      validator:
        etag !== undefined ? `${tagged}:${etag}` : lastModified !== undefined ? `modified:${lastModified}` : '',
      ...(lastModified === undefined ? {} : { modifiedAtNs: BigInt(Date.parse(lastModified)) * 1_000_000n }),
    };
    if (sha256 !== undefined && row.validator === '' && size > 0n) this.#digestOnly.note(path);
    if (sha256 !== undefined) return { ...row, contentKey: digestKey(url.href, sha256, size), sourceDigest: sha256 };
    if (etag !== undefined) return { ...row, contentKey: httpEtagKey(url.href, etag) };
    if (lastModified === undefined) {
      throw new HearthError(
        'InvalidArgument',
        `the server of ${printableUrl(url)} sends neither a strong ETag nor Last-Modified, so a change could not be noticed; give the file's SHA-256 (${url.origin}${url.pathname}#sha256=...)`,
      );
    }
    if (size > 0n) this.#weak.note(path, `${url.host} sends Last-Modified only`);
    return { ...row, contentKey: httpModifiedKey(url.href, lastModified, size) };
  }

  warnings(): string[] {
    const warnings = [
      ...this.#weak.warnings(),
      ...this.#digestOnly.warnings('their servers send neither an ETag nor Last-Modified'),
    ];
    for (const [from, to] of this.#redirected) warnings.push(`Redirected: files of ${from} are served by ${to}`);
    return warnings;
  }
}
