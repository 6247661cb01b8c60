import { type Clock, epochMs, HearthError, type Logger, within } from '@hearth/common';
import type { DatasetRevision, Engine, EngineEvent, Location, RevisionSource } from '@hearth/engine';
import type { AgentContext } from '../context.ts';
import { type CredentialCache, ofFirst, ofMirror } from '../credentials/index.ts';
import { comparesTags, hasOwn, mirrorsOf, type Origin, type OriginBase, placeName } from '../origins/index.ts';
import type { RevisionRecord } from './record.ts';
import type { OpenOrigin } from './resolution.ts';
import type { DatasetTables } from './table.ts';

const batchEntries = 256;
/** Locations that expire sooner than this are not handed out. */
const marginMs = 60_000;
/** An entry requested again this soon after its answer was probably refused by the origin: resolve it again. */
const refusedMs = 30_000;
const maxCached = 100_000;
const resolveDeadlineMs = 60_000;
/** As long as a restart of an object store may take. */
const defaultOriginWaitSeconds = 300;

type Sourced = Required<RevisionSource>;

interface Cached {
  location: Location;
  givenAt: number;
}

/** State of one source, first or mirror, of a revision. */
interface SourceState {
  of: Sourced;
  origin: Origin;
  /** True with several sources: files missing here may exist at another source. */
  allowMissing: boolean;
  /** Pending result of the origin's base. */
  base: ReturnType<Origin['base']>;
  /** Entries to resolve in the next turn; entries requested in one turn are resolved together. */
  waiting: Set<number>;
  /** Like `waiting`, with lower priority: no reader waits for these entries yet. */
  ahead: Set<number>;
  /** Entries being resolved. */
  resolving: Set<number>;
  cache: Map<number, Cached>;
  turn: NodeJS.Immediate | undefined;
}

type LocationsEvent = Extract<EngineEvent, { kind: 'locations' }>;

/** Lookups of revisions: in this agent's mirror and in the store. */
export type Revisions = Pick<DatasetTables, 'revision' | 'readRevision'>;

/**
 * Answers the engine's question where entries can be read, for the dataset named by the reader, mount or job and with
 * that dataset's credentials only, even if another dataset has the same manifest. Each source, first or mirror, has its
 * own origin, credentials and locations. One request at a time resolves an entry; results are cached until they expire.
 * Every question is answered, by a failure if necessary, until `close`.
 */
export class Locations {
  readonly #engine: Engine;
  readonly #logger: Logger;
  readonly #clock: Clock;
  readonly #tables: Revisions;
  readonly #open: OpenOrigin;
  readonly #credentials: CredentialCache;
  readonly #waitMs: number;
  readonly #revisions = new Map<string, SourceState[]>();
  readonly #stop = new AbortController();

  /** Questions wait up to `waitMs` for credentials that have not arrived. */
  constructor(
    { engine, logger, clock, timings }: Pick<AgentContext, 'engine' | 'logger' | 'clock' | 'timings'>,
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
    this.#waitMs = timings.requestMs;
  }

  /**
   * Opens the origins of a revision whose manifest is open in the engine. If an origin has a base for all entries, the
   * engine gets the base and asks nothing. Without credentials, opens no origin: the engine asks, and gets an answer
   * when the credentials arrive. A source that cannot be opened does not affect other sources: the engine asks and gets
   * the error; the error of the first source is thrown at the end.
   */
  prepare({ manifest, dataset }: DatasetRevision): void {
    const record = this.#tables.revision({ manifest, dataset });
    const mirrors = record === undefined ? [] : mirrorsOf(record.source);
    if (record !== undefined) {
      this.#engine.setMirrors(
        { manifest, dataset },
        mirrors.map((mirror) => ({ name: placeName(mirror), sameTags: comparesTags(record.source, mirror) })),
      );
      this.#engine.setOriginWait(
        { manifest, dataset },
        (record.source.originWaitSeconds ?? defaultOriginWaitSeconds) * 1000,
      );
    }
    let failed: HearthError | undefined;
    for (let source = 0; source <= mirrors.length; source++) {
      if (this.#awaitsCredentials(dataset, source, record)) continue;
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

  /** True when the dataset's credentials for the source have not arrived. */
  #awaitsCredentials(dataset: string, source: number, record: RevisionRecord | undefined): boolean {
    return this.#credentials.awaits(dataset) && (record === undefined || hasOwn(record.source, source));
  }

  #prepareSource(of: Sourced, record: RevisionRecord | undefined): void {
    const known = this.#known(of, record);
    const give = (base: OriginBase | undefined) => {
      if (base !== undefined && this.#isCurrent(of, known)) this.#engine.setOriginBase(of, base);
    };
    const base = baseOf(known);
    // Without a base the engine asks, and gets the reason.
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
    // The mirror may not contain a new revision yet.
    const heard = this.#tables.revision(of) ?? (await this.#tables.readRevision(of));
    if (this.#awaitsCredentials(dataset, source, heard)) {
      const signal = within(this.#clock, this.#waitMs, this.#stop.signal);
      // Without credentials, opening the origin below fails with the reason.
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
    const firsts = [...this.#revisions.values()].flat().filter(({ of }) => of.manifest === manifest && of.source === 0);
    return firsts.map(({ of }) => of.dataset);
  }

  /** Forgets all state of a revision and closes its origins. */
  forget(of: DatasetRevision): void {
    for (const { source, asked } of this.#drop(of)) {
      this.#fail({ ...of, source }, asked, new HearthError('NotFound', 'the dataset was removed; add it again'));
    }
  }

  /**
   * Reopens the origins of a revision with other credentials. Throws like `prepare`, after answering every question.
   */
  renew(of: DatasetRevision): void {
    const dropped = this.#drop(of);
    try {
      this.prepare(of);
    } finally {
      for (const { source, asked } of dropped)
        this.answer({ kind: 'locations', ...of, source, entries: asked, ahead: [] });
    }
  }

  /** Call before the engine closes. Open questions stay unanswered; their readers wait for the next agent. */
  close(): void {
    this.#stop.abort();
    for (const known of [...this.#revisions.values()].flat()) end(known);
    this.#revisions.clear();
  }

  /** Closes the origins and withdraws their bases. Returns the requested entries without an answer. */
  #drop(revision: DatasetRevision): { source: number; asked: number[] }[] {
    const ours = this.#revisions.get(keyOf(revision)) ?? [];
    this.#revisions.delete(keyOf(revision));
    return ours.flatMap((known) => {
      end(known);
      this.#engine.forgetLocations(known.of);
      const asked = [...known.resolving, ...known.waiting];
      return asked.length === 0 ? [] : [{ source: known.of.source, asked }];
    });
  }

  #find(of: Sourced): SourceState | undefined {
    return this.#revisions.get(keyOf(of))?.find((known) => known.of.source === of.source);
  }

  #known(of: Sourced, record: RevisionRecord | undefined): SourceState {
    const known = this.#find(of);
    if (known !== undefined) return known;
    if (record === undefined) {
      const what = of.dataset === '' ? 'the read belongs to no dataset' : `dataset ${of.dataset} is gone`;
      throw new HearthError(
        'NotFound',
        `${what}, or has no revision with this manifest: it was removed, or the store was emptied; add the dataset in this state again`,
      );
    }
    const made: SourceState = {
      of,
      origin: this.#openSource(of, record),
      allowMissing: mirrorsOf(record.source).length > 0,
      base: undefined,
      waiting: new Set(),
      ahead: new Set(),
      resolving: new Set(),
      cache: new Map(),
      turn: undefined,
    };
    this.#revisions.set(keyOf(of), [...(this.#revisions.get(keyOf(of)) ?? []), made]);
    return made;
  }

  #openSource({ dataset, source }: Sourced, record: RevisionRecord): Origin {
    const needed = hasOwn(record.source, source);
    const own = needed ? this.#credentials.of(dataset) : undefined;
    if (source === 0) return this.#open(record.source, record.revision, ofFirst(own), dataset);
    const mirror = mirrorsOf(record.source)[source - 1];
    if (mirror === undefined) throw new HearthError('NotFound', `dataset ${dataset} no longer has a mirror ${source}`);
    // Commits belong to the first source, the only listed one.
    const revision = mirror.kind?.$case === 'hub' ? record.revision : '';
    return this.#open(mirror, revision, ofMirror(own, mirror, needed), dataset);
  }

  /** Locations resolved with former credentials are not handed out. */
  #isCurrent(of: Sourced, known: SourceState): boolean {
    return !this.#stop.signal.aborted && this.#find(of) === known;
  }

  #resolve(of: Sourced, known: SourceState): void {
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

  async #resolveBatch(of: Sourced, known: SourceState, entries: number[]): Promise<void> {
    const signal = within(this.#clock, resolveDeadlineMs, this.#stop.signal);
    try {
      const asked = await this.#engine.entriesAt(of.manifest, entries);
      const found = await known.origin.locate(asked, signal, known.allowMissing);
      if (!this.#isCurrent(of, known)) return;
      const givenAt = epochMs(this.#clock);
      for (const location of found) remember(known.cache, { location, givenAt });
      const located = new Set(found.map((location) => location.entry));
      const missing = entries.filter((entry) => !located.has(entry));
      this.#engine.setLocations(of, found);
      if (missing.length > 0) this.#fail(of, missing, known.origin.lackingError ?? absent());
    } catch (thrown) {
      if (this.#isCurrent(of, known))
        this.#fail(of, entries, timeoutError(thrown, signal).within(`dataset ${of.dataset}`));
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

/** The error of a lookup that took too long, unless its own reader cancelled it. */
function timeoutError(thrown: unknown, signal: AbortSignal): HearthError {
  if (!signal.aborted) return HearthError.from(thrown);
  const seconds = resolveDeadlineMs / 1000;
  return new HearthError('Unavailable', `the origin did not locate the files within ${seconds} s`);
}

function absent(): HearthError {
  return new HearthError('NotFound', 'the origin has no location for these files');
}

function keyOf({ manifest, dataset }: DatasetRevision): string {
  return `${manifest}/${dataset}`;
}

/** Asks the origin once at a time, because a directory that hangs may take long. */
function baseOf(known: SourceState): ReturnType<Origin['base']> {
  if (known.base !== undefined) return known.base;
  const base = known.origin.base();
  if (!(base instanceof Promise)) return base;
  known.base = base.finally(() => {
    known.base = undefined;
  });
  return known.base;
}

function end(known: SourceState): void {
  clearImmediate(known.turn);
  known.origin.close();
}

function isUsable(cached: Cached, now: number): boolean {
  const { expiresAt } = cached.location;
  return now - cached.givenAt >= refusedMs && (expiresAt === undefined || expiresAt - marginMs > now);
}

/** Evicts the oldest location when full; a Map keeps insertion order. */
function remember(cache: Map<number, Cached>, entry: Cached): void {
  cache.delete(entry.location.entry);
  cache.set(entry.location.entry, entry);
  const oldest = cache.keys().next().value;
  if (cache.size > maxCached && oldest !== undefined) cache.delete(oldest);
}
