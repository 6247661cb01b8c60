import { type Clock, epochMs, HearthError, type Logger, within } from '@hearth/common';
import type { DatasetRevision, Engine, EngineEvent, Location, RevisionSource } from '@hearth/engine';
import type { AgentContext } from '../context.ts';
import { type CredentialCache, ofFirst, ofMirror } from '../credentials/index.ts';
import { comparesTags, hasOwn, mirrorsOf, type Origin, type OriginBase, placeName } from '../origins/index.ts';
import type { RevisionRecord } from './record.ts';
import type { OpenOrigin } from './resolution.ts';
import type { DatasetTables } from './table.ts';

const batchEntries = 256;
/** A location is not given out when it expires sooner than this. */
const marginMs = 60_000;
/** An entry asked for again so soon after its answer was refused by the origin: it is resolved again. */
const refusedMs = 30_000;
const maxCached = 100_000;
const resolveDeadlineMs = 60_000;

type Sourced = Required<RevisionSource>;

interface Cached {
  location: Location;
  givenAt: number;
}

/** Of one source of a revision: the first, or a mirror. */
interface OfRevision {
  of: Sourced;
  origin: Origin;
  /** There are several sources: files that this one lacks are no failure of the others. */
  partly: boolean;
  /** Asked for, and not known yet. */
  base: ReturnType<Origin['base']>;
  /** Entries to resolve in the next turn: what comes in one turn is resolved together. */
  waiting: Set<number>;
  /** As `waiting`, after those: none waits for them yet. */
  ahead: Set<number>;
  /** Entries that are being resolved now. */
  resolving: Set<number>;
  cache: Map<number, Cached>;
  turn: NodeJS.Immediate | undefined;
}

type LocationsEvent = Extract<EngineEvent, { kind: 'locations' }>;

/** Where revisions are known from: what this agent has heard, and what the store has now. */
export type Revisions = Pick<DatasetTables, 'revision' | 'readRevision'>;

/**
 * Answers the engine's question where entries can be read: for the dataset that the reader, mount or job names, by the
 * credentials of that dataset and of no other one, though it had the same manifest. Every source, the first one and each
 * mirror, has an origin, credentials and locations of its own. Each entry is resolved by one
 * request at a time; what was resolved is kept in memory until it expires. Every question is answered, by failure if
 * need be, until `close`.
 */
export class Locations {
  readonly #engine: Engine;
  readonly #logger: Logger;
  readonly #clock: Clock;
  readonly #tables: Revisions;
  readonly #open: OpenOrigin;
  readonly #credentials: CredentialCache;
  readonly #waitMs: number;
  readonly #revisions = new Map<string, OfRevision>();
  readonly #stop = new AbortController();

  /** Questions wait `waitMs` for credentials that this agent does not know yet. */
  constructor(
    { engine, logger, clock, pace }: Pick<AgentContext, 'engine' | 'logger' | 'clock' | 'pace'>,
    tables: Revisions,
    open: OpenOrigin,
    credentials: CredentialCache,
  ) {
    this.#engine = engine;
    this.#logger = logger;
    this.#clock = clock;
    this.#tables = tables;
    this.#open = open;
    this.#credentials = credentials;
    this.#waitMs = pace.requestMs;
  }

  /**
   * Opens the origins of a revision, whose manifest is open in the engine; where one has a base for all entries the engine
   * is given that and asks nothing. Without its credentials none is opened: the engine then asks, and hears when they are
   * here. A source that cannot be opened is asked for by the engine, which then hears why, and keeps no other one from
   * being opened; of the first one the error is thrown at the end.
   */
  prepare({ manifest, dataset }: DatasetRevision): void {
    const record = this.#tables.revision({ manifest, dataset });
    const mirrors = record === undefined ? [] : mirrorsOf(record.source);
    if (record !== undefined) {
      this.#engine.setMirrors(
        { manifest, dataset },
        mirrors.map((mirror) => ({ name: placeName(mirror), sameTags: comparesTags(record.source, mirror) })),
      );
    }
    let failed: HearthError | undefined;
    for (let source = 0; source <= mirrors.length; source++) {
      if (this.#waits(dataset, source, record)) continue;
      try {
        this.#prepareSource({ manifest, dataset, source }, record);
      } catch (thrown) {
        const error = HearthError.from(thrown);
        if (source === 0) failed = error;
        else this.#logger.warn('failed to open a mirror', { dataset, mirror: source, error });
      }
    }
    if (failed !== undefined) throw failed;
  }

  /** It is read by credentials of the dataset, which are not here. */
  #waits(dataset: string, source: number, record: RevisionRecord | undefined): boolean {
    return this.#credentials.awaits(dataset) && (record === undefined || hasOwn(record.source, source));
  }

  #prepareSource(of: Sourced, record: RevisionRecord | undefined): void {
    const known = this.#known(of, record);
    const give = (base: OriginBase | undefined) => {
      if (base !== undefined && this.#isCurrent(of, known)) this.#engine.setOriginBase(of, base);
    };
    const base = baseOf(known);
    // Without one the engine asks, and hears why.
    if (base instanceof Promise) base.then(give).catch(() => undefined);
    else give(base);
  }

  /** Never throws. */
  answer(event: LocationsEvent): void {
    this.#answer(event).catch((thrown: unknown) => {
      if (!this.#stop.signal.aborted) this.#fail(event, event.entries, HearthError.from(thrown));
    });
  }

  async #answer(event: LocationsEvent): Promise<void> {
    const { manifest, dataset, source } = event;
    const of = { manifest, dataset, source };
    // A revision that was just made may not have been heard of here.
    const heard = this.#tables.revision(of) ?? (await this.#tables.readRevision(of));
    if (this.#waits(dataset, source, heard)) {
      const signal = within(this.#clock, this.#waitMs, this.#stop.signal);
      // Without them the origin is not opened below, with the reason.
      await this.#credentials.arrived(dataset, signal).catch(() => undefined);
    }
    const record = this.#tables.revision(of) ?? heard;
    if (this.#stop.signal.aborted) return;
    const known = this.#known(of, record);
    const base = await baseOf(known);
    if (!this.#isCurrent(of, known)) return this.#stop.signal.aborted ? undefined : await this.#answer(event);
    if (base !== undefined) {
      this.#engine.setOriginBase(of, base);
      return;
    }
    const ready: Location[] = [];
    const now = epochMs(this.#clock);
    for (const entry of event.entries) {
      const cached = known.cache.get(entry);
      if (cached !== undefined && isUsable(cached, now)) {
        cached.givenAt = now;
        ready.push(cached.location);
      } else if (!known.resolving.has(entry)) known.waiting.add(entry);
    }
    if (known.origin.locatesFreely) {
      for (const entry of event.ahead) if (!known.resolving.has(entry)) known.ahead.add(entry);
    }
    if (ready.length > 0) this.#engine.setLocations(of, ready);
    if (known.waiting.size + known.ahead.size > 0) known.turn ??= setImmediate(() => this.#resolve(of, known));
  }

  /** Datasets with this manifest whose origins are open. */
  datasetsWith(manifest: string): string[] {
    const firsts = [...this.#revisions.values()].filter(({ of }) => of.manifest === manifest && of.source === 0);
    return firsts.map(({ of }) => of.dataset);
  }

  /** Forgets what is known of a revision and closes its origins. */
  forget(of: DatasetRevision): void {
    for (const { source, asked } of this.#drop(of)) {
      this.#fail({ ...of, source }, asked, new HearthError('NotFound', 'the dataset was removed; add it again'));
    }
  }

  /** Opens the origins of a revision again: with other credentials. Throws as `prepare`, with every question answered. */
  renew(of: DatasetRevision): void {
    const dropped = this.#drop(of);
    try {
      this.prepare(of);
    } finally {
      for (const { source, asked } of dropped)
        this.answer({ kind: 'locations', ...of, source, entries: asked, ahead: [] });
    }
  }

  /** Before the engine closes. What it still asks stays without an answer: its readers wait for the next agent. */
  close(): void {
    this.#stop.abort();
    for (const known of this.#revisions.values()) end(known);
    this.#revisions.clear();
  }

  /** Closes the origins and takes back what they gave; the entries that were asked for and have no answer yet. */
  #drop({ manifest, dataset }: DatasetRevision): { source: number; asked: number[] }[] {
    const ours = [...this.#revisions.values()].filter(({ of }) => of.manifest === manifest && of.dataset === dataset);
    return ours.flatMap((known) => {
      this.#revisions.delete(keyOf(known.of));
      end(known);
      this.#engine.forgetLocations(known.of);
      const asked = [...known.resolving, ...known.waiting];
      return asked.length === 0 ? [] : [{ source: known.of.source, asked }];
    });
  }

  #known(of: Sourced, record: RevisionRecord | undefined): OfRevision {
    const known = this.#revisions.get(keyOf(of));
    if (known !== undefined) return known;
    if (record === undefined) {
      const what = of.dataset === '' ? 'what is read here belongs to no dataset' : `dataset ${of.dataset} is gone`;
      throw new HearthError(
        'NotFound',
        `${what}, or has no revision with this manifest: it was removed, or the store was emptied; add it in this state again`,
      );
    }
    const made: OfRevision = {
      of,
      origin: this.#openSource(of, record),
      partly: mirrorsOf(record.source).length > 0,
      base: undefined,
      waiting: new Set(),
      ahead: new Set(),
      resolving: new Set(),
      cache: new Map(),
      turn: undefined,
    };
    this.#revisions.set(keyOf(of), made);
    return made;
  }

  #openSource({ dataset, source }: Sourced, record: RevisionRecord): Origin {
    const needed = hasOwn(record.source, source);
    const own = needed ? this.#credentials.of(dataset) : undefined;
    if (source === 0) return this.#open(record.source, record.revision, ofFirst(own), dataset);
    const mirror = mirrorsOf(record.source)[source - 1];
    if (mirror === undefined) throw new HearthError('NotFound', `dataset ${dataset} has no mirror ${source} any more`);
    // Commits are those of the first source, which alone was listed.
    const revision = mirror.kind?.$case === 'hub' ? record.revision : '';
    return this.#open(mirror, revision, ofMirror(own, mirror, needed), dataset);
  }

  /** Locations found by former credentials are not given out. */
  #isCurrent(of: Sourced, known: OfRevision): boolean {
    return !this.#stop.signal.aborted && this.#revisions.get(keyOf(of)) === known;
  }

  #resolve(of: Sourced, known: OfRevision): void {
    known.turn = undefined;
    const ahead = [...known.ahead].filter((entry) => !known.waiting.has(entry));
    for (const entries of [[...known.waiting], ahead]) {
      for (const entry of entries) known.resolving.add(entry);
      for (let at = 0; at < entries.length; at += batchEntries)
        void this.#resolveBatch(of, known, entries.slice(at, at + batchEntries));
    }
    known.waiting.clear();
    known.ahead.clear();
  }

  async #resolveBatch(of: Sourced, known: OfRevision, entries: number[]): Promise<void> {
    const signal = within(this.#clock, resolveDeadlineMs, this.#stop.signal);
    try {
      const asked = await this.#engine.entriesAt(of.manifest, entries);
      const found = await known.origin.locate(asked, signal, known.partly);
      if (!this.#isCurrent(of, known)) return;
      const givenAt = epochMs(this.#clock);
      for (const location of found) remember(known.cache, { location, givenAt });
      const located = new Set(found.map((location) => location.entry));
      const missing = entries.filter((entry) => !located.has(entry));
      this.#engine.setLocations(of, found);
      if (missing.length > 0)
        this.#fail(of, missing, new HearthError('NotFound', 'the origin has no location for these files'));
    } catch (thrown) {
      if (this.#isCurrent(of, known)) this.#fail(of, entries, lateOr(thrown, signal).within(`dataset ${of.dataset}`));
    } finally {
      for (const entry of entries) known.resolving.delete(entry);
    }
  }

  /** Never throws. */
  #fail({ manifest, dataset, source }: Sourced, entries: number[], error: HearthError): void {
    this.#logger.warn('failed to resolve locations', { manifest, dataset, source, entries: entries.length, error });
    this.#engine.failLocations({ manifest, dataset, source }, entries, { code: error.code, message: error.message });
  }
}

/** The error of a look that took too long, unless its own reader gave it up. */
function lateOr(thrown: unknown, signal: AbortSignal): HearthError {
  if (!signal.aborted) return HearthError.from(thrown);
  const seconds = resolveDeadlineMs / 1000;
  return new HearthError('Unavailable', `the origin did not say within ${seconds} s where these files are`);
}

function keyOf({ manifest, dataset, source }: Sourced): string {
  return `${manifest}/${dataset}/${source}`;
}

/** The origin is asked once at a time: of a directory that hangs it takes as long as that may. */
function baseOf(known: OfRevision): ReturnType<Origin['base']> {
  if (known.base !== undefined) return known.base;
  const base = known.origin.base();
  if (!(base instanceof Promise)) return base;
  known.base = base.finally(() => {
    known.base = undefined;
  });
  return known.base;
}

function end(known: OfRevision): void {
  clearImmediate(known.turn);
  known.origin.close();
}

function isUsable(cached: Cached, now: number): boolean {
  const { expiresAt } = cached.location;
  return now - cached.givenAt >= refusedMs && (expiresAt === undefined || expiresAt - marginMs > now);
}

/** The oldest goes first when there are too many: a map keeps the order of insertion. */
function remember(cache: Map<number, Cached>, entry: Cached): void {
  cache.delete(entry.location.entry);
  cache.set(entry.location.entry, entry);
  const oldest = cache.keys().next().value;
  if (cache.size > maxCached && oldest !== undefined) cache.delete(oldest);
}
