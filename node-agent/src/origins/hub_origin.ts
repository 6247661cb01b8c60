import { epochMs, HearthError } from '@hearth/common';
import type { HubSource } from '@hearth/common/generated/hearth/v1/control.ts';
import type { Location, ManifestRow } from '@hearth/engine';
import { digestKey, hubKey } from './content_key.ts';
import { readFirstByte, readFirstByteOfFile } from './first_byte.ts';
import type { HttpClient } from './http_client.ts';
import { HubCacheLayout } from './hub_cache_layout.ts';
import { HubClient, type HubFile, type HubFilePlace } from './hub_client.ts';
import type { LocatableEntry, Origin, OriginRevision } from './origin.ts';
import { collectConcurrently } from './row_stream.ts';
import { signedUrlExpiry } from './signed_url.ts';
import { UnusableNames } from './unusable_names.ts';
import { WeakValidators } from './weak_validators.ts';

const maxConcurrentRequests = 16;
/** For redirects that do not state their expiry. */
const unknownLifetimeMs = 5 * 60_000;

/** The engine compares git ids of files up to this size (git_blob.h), which it reads in one piece. */
const provableBytes = 16n << 20n;
/** Git ids in SHA-1 and SHA-256 repositories. */
const gitId = /^([0-9a-f]{40}|[0-9a-f]{64})$/;

export interface HubOriginOptions {
  /** With its endpoint filled in. */
  source: HubSource;
  description: string;
  unusableNames: string;
  allowWeakValidators: boolean;
  token: string | undefined;
  /** Previously listed commit; '': resolve the source's revision. */
  revision: string;
  client: HttpClient;
  /** Folder of files that the cache layout needs and the hub lacks. */
  referencesDirectory: string;
}

/** A repository of a Hugging Face compatible hub at one commit. */
export class HubOrigin implements Origin {
  readonly kind = 'hub';
  readonly locatesFreely = false;
  readonly #options: HubOriginOptions;
  readonly #hub: HubClient;
  readonly #layout: HubCacheLayout | undefined;
  #revision: OriginRevision;

  constructor(options: HubOriginOptions) {
    this.#options = options;
    this.#hub = new HubClient(options.client, options.source, options.token);
    this.#revision = { name: options.revision, warnings: [] };
    if (options.source.layout === 'hub') this.#layout = new HubCacheLayout(options.source, options.referencesDirectory);
  }

  describe(): string {
    return this.#options.description;
  }

  async *list(signal: AbortSignal): AsyncGenerator<ManifestRow[]> {
    const { source, revision, unusableNames, allowWeakValidators } = this.#options;
    const unusable = new UnusableNames(unusableNames);
    const weak = new WeakValidators(allowWeakValidators);
    const commit = revision || (await this.#hub.resolveRevision(source.revision || 'main', signal));
    if (this.#layout !== undefined) yield [this.#layout.referenceRow(commit)];
    let idsAreGits: boolean | undefined;
    let etagsAreIds: boolean | undefined;
    for await (const files of this.#hub.tree(commit, signal)) {
      const rows: ManifestRow[] = [];
      for (const file of files) {
        if (!file.path.isWellFormed()) {
          unusable.add(file.path.toWellFormed(), 'not Unicode');
          continue;
        }
        const isPlain = file.sha256 === undefined && file.size > 0n;
        if (isPlain && isProvable(file)) idsAreGits ??= await this.#hub.hasItsId(commit, file, signal);
        const isProved = idsAreGits === true && isProvable(file);
        if (isPlain && !isProved) {
          etagsAreIds ??= await this.#etagIsId(commit, file, signal);
          if (!etagsAreIds) weak.note(file.path, `ETags of ${this.#hub.endpoint} are not the git ids of files`);
        }
        rows.push(this.#row(commit, file, isProved ? 'git' : etagsAreIds === true ? 'etag' : 'none'));
      }
      if (rows.length > 0) yield rows;
    }
    const warnings = [...this.#hub.warnings(), ...weak.warnings(), ...unusable.finish()];
    this.#revision = { name: commit, warnings };
  }

  chosenBy(path: string): string | undefined {
    return this.#layout === undefined ? path : this.#layout.inRepository(path);
  }

  revision(): OriginRevision {
    return this.#revision;
  }

  base(): undefined {
    return undefined;
  }

  async locate(entries: LocatableEntry[], signal: AbortSignal, allowMissing = false): Promise<Location[]> {
    const commit = this.#revision.name;
    if (commit === '') {
      throw new HearthError(
        'InvalidArgument',
        `files of ${this.describe()} cannot be located before its commit is known; list it, or create the origin with the revision`,
      );
    }
    const located = await collectConcurrently(entries, maxConcurrentRequests, async ({ index, path: given }) => {
      const path = this.chosenBy(given);
      if (path === undefined) return await this.#layout?.locateReference(index, commit);
      const place = allowMissing
        ? await this.#hub.findFile(commit, path, signal)
        : await this.#hub.resolveFile(commit, path, signal);
      return place === undefined ? undefined : this.#location(index, place);
    });
    return located.filter((location) => location !== undefined);
  }

  #location(index: number, { url, elsewhere, redirected }: HubFilePlace): Location {
    const authorization = elsewhere ? undefined : this.#hub.authorization();
    const isSigned = elsewhere || (redirected && url.search !== '');
    const expiresAt = signedUrlExpiry(url) ?? epochMs(this.#options.client.clock) + unknownLifetimeMs;
    return {
      entry: index,
      url: url.href,
      ...(authorization === undefined ? {} : { headers: { authorization } }),
      ...(isSigned ? { expiresAt } : {}),
    };
  }

  /** A repository is gated as a whole, and large files are stored apart. */
  partOf(row: ManifestRow): string {
    if (this.chosenBy(row.path) === undefined) return 'reference';
    return row.sourceDigest === undefined ? 'plain' : 'lfs';
  }

  async readByte(entry: LocatableEntry, signal: AbortSignal): Promise<void> {
    for (const location of await this.locate([entry], signal)) {
      if (location.path === undefined) await readFirstByte(this.#options.client, location, entry, signal);
      else await readFirstByteOfFile(location);
    }
  }

  close(): void {
    this.#hub.close();
  }

  /** True when the hub's ETags of plain files are their git ids, as at huggingface.co; checks one file. */
  async #etagIsId(commit: string, { path, oid }: HubFile, signal: AbortSignal): Promise<boolean> {
    return (await this.#hub.etagOf(commit, path, signal)) === `"${oid}"`;
  }

  /**
   * Large files have a digest and no validator, because their ETags differ between the hub and its CDN; a commit never
   * changes. Plain files
   * have a git id of their bytes, which the engine verifies where the hub's ids are correct; elsewhere the ETag may be
   * the git id.
   */
  #row(commit: string, { path, size, oid, sha256 }: HubFile, plainBy: 'git' | 'etag' | 'none'): ManifestRow {
    const shown = this.#layout?.pathOf(commit, path) ?? path;
    if (sha256 !== undefined)
      return {
        path: shown,
        kind: 'file',
        size,
        contentKey: digestKey(this.#hub.endpoint, sha256, size),
        sourceDigest: sha256,
        validator: '',
      };
    const contentKey = hubKey(this.#hub.givenUrl(commit, path).href, oid);
    const validator = { git: `git:${oid}`, etag: `etag:"${oid}"`, none: '' }[plainBy];
    return { path: shown, kind: 'file', size, contentKey, validator };
  }
}

function isProvable({ size, oid }: Pick<HubFile, 'size' | 'oid'>): boolean {
  return size <= provableBytes && gitId.test(oid);
}
