import { HearthError, within } from '@hearth/common';
import type { ManifestEntry } from '@hearth/engine';
import type { AgentContext } from '../context.ts';
import { type CredentialCache, ofFirst } from '../credentials/index.ts';
import { hasOwn } from '../origins/index.ts';
import type { RevisionRecord } from './record.ts';
import type { OpenOrigin } from './resolution.ts';

/** A file of a revision, and the identity of its content. */
export type ListedFile = Pick<ManifestEntry, 'path' | 'contentKey'>;

/** Checks that an origin still has the listed files, by listing it again without registering the result. */
export class OriginCheck {
  readonly #context: AgentContext;
  readonly #open: OpenOrigin;
  readonly #credentials: CredentialCache;

  constructor(context: AgentContext, open: OpenOrigin, credentials: CredentialCache) {
    this.#context = context;
    this.#open = open;
    this.#credentials = credentials;
  }

  /**
   * Files that the origin no longer has as the revision lists them. Stops once all files are found. Throws errors of
   * the origin unchanged; `DeadlineExceeded` when a listing is silent for too long.
   */
  async lacking<File extends ListedFile>(
    revision: RevisionRecord,
    files: AsyncIterable<readonly File[]>,
    signal: AbortSignal,
  ): Promise<File[]> {
    const { clock, timings } = this.#context;
    const wanted = new Map<string, File>();
    for await (const page of files) for (const file of page) wanted.set(file.path, file);
    const { dataset, source } = revision;
    const needed = hasOwn(source, 0);
    // Without credentials, `of` throws the reason.
    if (needed)
      await this.#credentials.arrived(dataset, within(clock, timings.requestMs, signal)).catch(() => undefined);
    const own = needed ? this.#credentials.of(dataset) : undefined;
    const origin = this.#open(source, revision.revision, ofFirst(own), dataset);
    try {
      for await (const rows of origin.list(within(clock, timings.listingMs, signal))) {
        for (const { path, contentKey } of rows) {
          if (wanted.get(path)?.contentKey === contentKey) wanted.delete(path);
        }
        if (wanted.size === 0) break;
      }
    } catch (thrown) {
      // The origin has no files at all.
      if (HearthError.from(thrown).code !== 'NotFound') throw thrown;
    } finally {
      origin.close();
    }
    return [...wanted.values()];
  }
}
