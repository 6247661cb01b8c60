import { type Clock, HearthError, type Logger } from '@hearth/common';
import { type Engine, type ManifestBuilder, type ManifestRow, PathFilter } from '@hearth/engine';
import type { ListingLimits } from '../context.ts';
import type { Origin, OriginRevision } from '../origins/index.ts';
import { ReadingProof } from './reading_proof.ts';
import type { DatasetRequest } from './record.ts';

export interface ListingProgress {
  filesListed: number;
  bytesListed: bigint;
}

/** The contents of an origin; `builder` makes the manifest. */
export interface Listed {
  builder: ManifestBuilder;
  revision: OriginRevision;
}

export interface ListingParts {
  engine: Engine;
  logger: Logger;
  clock: Clock;
  limits: ListingLimits;
  /** The listing fails when the origin lists nothing for this long, ms. */
  silenceMs: number;
  /** Called occasionally, and awaited. */
  report(progress: ListingProgress): Promise<void>;
}

const progressMs = 500;

/**
 * Lists an origin for a manifest, and reads what `ReadingProof` asks for with the dataset's own credentials, because a
 * list may be public where bytes are not, and other datasets may have cached the same bytes. Throws errors of the
 * origin unchanged, `NotFound` when it has no files, `DeadlineExceeded` when it stops listing, `OutOfSpace` above the
 * limits.
 */
export async function listOrigin(
  name: string,
  request: DatasetRequest,
  origin: Origin,
  { engine, logger, clock, limits, silenceMs, report }: ListingParts,
  signal: AbortSignal,
): Promise<Listed> {
  const filter = new PathFilter(request.include, request.exclude);
  const skipUnusable = request.source.unusableNames === 'Skip';
  const builder = engine.createManifestBuilder({ skipUnusable });
  const seen: ListingProgress = { filesListed: 0, bytesListed: 0n };
  const proof = new ReadingProof(origin);
  const size = new ListingSize(name, limits);
  let reportedAt = clock.now();
  logger.info('listing the origin', { dataset: name, origin: origin.describe() });
  for await (const page of untilSilence(origin, silenceMs, clock, signal)) {
    const rows = page.filter((row) => filter.choosesAll || isChosen(row, filter, origin));
    size.add(page.length, rows);
    builder.add(rows);
    proof.note(rows);
    count(seen, rows);
    if (clock.now() - reportedAt < progressMs) continue;
    reportedAt = clock.now();
    await report({ ...seen });
  }
  await report({ ...seen });
  if (seen.filesListed === 0) {
    throw new HearthError(
      'NotFound',
      `${origin.describe()} has no files${filter.choosesAll ? '' : ' that the patterns choose'}; check the source`,
    );
  }
  await proof.read(signal);
  const refused = skipUnusable ? builder.unusable() : [];
  const revision = origin.revision();
  const warnings = refused.length === 0 ? [] : [`UnusableNames: left out ${refused.join(', ')}`];
  return { builder, revision: { ...revision, warnings: [...revision.warnings, ...warnings] } };
}

function isChosen(row: ManifestRow, filter: PathFilter, origin: Origin): boolean {
  if (row.kind === 'directory') return false;
  const path = origin.chosenBy === undefined ? row.path : origin.chosenBy(row.path);
  return path === undefined || filter.matches(path);
}

/** Checks a listing against its limits. */
class ListingSize {
  readonly #dataset: string;
  readonly #limits: ListingLimits;
  #seen = 0;
  #entries = 0;
  #nameBytes = 0;

  constructor(dataset: string, limits: ListingLimits) {
    this.#dataset = dataset;
    this.#limits = limits;
  }

  /** `seen`: number of rows listed by the origin; `rows`: the included rows. */
  add(seen: number, rows: readonly ManifestRow[]): void {
    this.#seen += seen;
    this.#entries += rows.length;
    for (const { path } of rows) this.#nameBytes += Buffer.byteLength(path);
    const { entries, nameBytes } = this.#limits;
    if (this.#entries > entries) this.#refuse(`more than ${entries} entries`);
    if (this.#nameBytes > nameBytes) this.#refuse(`names of more than ${nameBytes} bytes in all`);
    // Excluded files cost only time, but an endless origin must still be refused.
    if (this.#seen > unwantedFactor * entries) this.#refuse(`more than ${unwantedFactor * entries} entries to check`);
  }

  #refuse(what: string): never {
    throw new HearthError(
      'OutOfSpace',
      `the origin of dataset ${this.#dataset} has ${what}; choose a part of it, or raise origins.maxEntries of the agents`,
    );
  }
}

const unwantedFactor = 100;

/**
 * Yields pages of a listing; throws when no page with a row arrives for `silenceMs`, so that no listing blocks its slot
 * forever.
 */
async function* untilSilence(
  origin: Origin,
  silenceMs: number,
  clock: Clock,
  signal: AbortSignal,
): AsyncGenerator<ManifestRow[]> {
  const stalled = new AbortController();
  const abandon = () =>
    stalled.abort(
      new HearthError(
        'DeadlineExceeded',
        `${origin.describe()} listed no more files for ${silenceMs / 60_000} min while it was listed; look at its server, or choose a smaller part of it`,
      ),
    );
  let cancel = clock.schedule(silenceMs, abandon);
  try {
    for await (const page of origin.list(AbortSignal.any([signal, stalled.signal]))) {
      if (page.length === 0) continue;
      cancel();
      yield page;
      cancel = clock.schedule(silenceMs, abandon);
    }
  } catch (thrown) {
    throw stalled.signal.aborted ? stalled.signal.reason : thrown;
  } finally {
    cancel();
  }
}

function count(seen: ListingProgress, rows: readonly ManifestRow[]): void {
  for (const row of rows) {
    if (row.kind === 'file') seen.filesListed++;
    seen.bytesListed += row.size;
  }
}
