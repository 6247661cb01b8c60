import { HearthError, type Logger } from '@hearth/common';
import { type Engine, type ManifestInfo, type ManifestRow, PathFilter } from '@hearth/engine';
import type { Origin, OriginRevision } from '../origins/origin.ts';
import { ReadingProof } from './reading_proof.ts';
import type { DatasetRequest } from './record.ts';

export interface ListingProgress {
  filesListed: number;
  bytesListed: bigint;
}

export interface Listed {
  info: ManifestInfo;
  revision: OriginRevision;
}

export interface ListingParts {
  engine: Engine;
  logger: Logger;
  /** The listing ends when the origin has told of nothing for this long, milliseconds. */
  patienceMs: number;
  /** Called now and then, and awaited. */
  tell(progress: ListingProgress): Promise<void>;
}

const progressMs = 500;

/**
 * Lists an origin into a manifest, and reads with the dataset's own credentials what `ReadingProof` asks for: a list may
 * be public where the bytes are not, and other datasets may have brought the same bytes here already. Errors of the
 * origin as they are; `NotFound` when it has no files, `DeadlineExceeded` when it stops telling of any.
 */
export async function listOrigin(
  name: string,
  request: DatasetRequest,
  origin: Origin,
  { engine, logger, patienceMs, tell }: ListingParts,
  signal: AbortSignal,
): Promise<Listed> {
  const filter = new PathFilter(request.include, request.exclude);
  const skipUnusable = request.source.unusableNames === 'Skip';
  const builder = engine.createManifestBuilder({ skipUnusable });
  const seen: ListingProgress = { filesListed: 0, bytesListed: 0n };
  const proof = new ReadingProof(origin);
  let told = performance.now();
  logger.info('listing the origin', { dataset: name, origin: origin.describe() });
  for await (const page of patiently(origin, patienceMs, signal)) {
    const rows = page.filter((row) => filter.choosesAll || (row.kind !== 'directory' && filter.matches(row.path)));
    builder.add(rows);
    proof.note(rows);
    count(seen, rows);
    if (performance.now() - told < progressMs) continue;
    told = performance.now();
    await tell({ ...seen });
  }
  await tell({ ...seen });
  if (seen.filesListed === 0) {
    throw new HearthError(
      'NotFound',
      `${origin.describe()} has no files${filter.choosesAll ? '' : ' that the patterns choose'}; check the source`,
    );
  }
  await proof.read(signal);
  const refused = skipUnusable ? builder.unusable() : [];
  const info = await engine.finishManifest(builder);
  const revision = origin.revision();
  const warnings = refused.length === 0 ? [] : [`UnusableNames: left out ${refused.join(', ')}`];
  return { info, revision: { ...revision, warnings: [...revision.warnings, ...warnings] } };
}

/** The pages of a listing, until none with a row has come for `patienceMs`: a place for listings is not held for ever. */
async function* patiently(origin: Origin, patienceMs: number, signal: AbortSignal): AsyncGenerator<ManifestRow[]> {
  const stalled = new AbortController();
  const giveUp = () =>
    stalled.abort(
      new HearthError(
        'DeadlineExceeded',
        `${origin.describe()} told of no more files for ${patienceMs / 60_000} min while it was listed; look at its server, or choose a smaller part of it`,
      ),
    );
  let timer = setTimeout(giveUp, patienceMs);
  try {
    for await (const page of origin.list(AbortSignal.any([signal, stalled.signal]))) {
      if (page.length === 0) continue;
      clearTimeout(timer);
      yield page;
      timer = setTimeout(giveUp, patienceMs);
    }
  } catch (thrown) {
    throw stalled.signal.aborted ? stalled.signal.reason : thrown;
  } finally {
    clearTimeout(timer);
  }
}

function count(seen: ListingProgress, rows: readonly ManifestRow[]): void {
  for (const row of rows) {
    if (row.kind === 'file') seen.filesListed++;
    seen.bytesListed += row.size;
  }
}
