import { type Clock, epochMs, HearthError, type Logger, within } from '@hearth/common';
import type { DatasetRevision, Engine, EngineEvent, Location } from '@hearth/engine';
import type { AgentContext } from '../context.ts';
import type { CredentialBook } from '../credentials/index.ts';
import type { Origin } from '../origins/index.ts';
import type { RevisionRecord } from './record.ts';
import type { OpenOrigin } from './resolution.ts';
import type { DatasetTables } from './table.ts';

const batchEntries = 256;
/** A location is not given out when it expires sooner than this. */
const marginMs = 60_000;
/** An entry asked for again so soon after its answer was refused by the origin: it is resolved again. */
const refusedMs = 30_000;
const mostCached = 100_000;
const resolveDeadlineMs = 60_000;

interface Cached {
  location: Location;
  givenAt: number;
}

interface OfRevision {
  origin: Origin;
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
 * credentials of that dataset and of no other one, though it had the same manifest. Each entry is resolved by one
 * request at a time; what was resolved is kept in memory until it expires. Every question is answered, by failure if
 * need be, until `close`.
 */
export class Locations {
  readonly #engine: Engine;
  readonly #logger: Logger;
  readonly #clock: Clock;
  readonly #tables: Revisions;
  readonly #open: OpenOrigin;
  readonly #credentials: CredentialBook;
  readonly #waitMs: number;
  readonly #revisions = new Map<string, OfRevision>();
  readonly #stop = new AbortController();

  /** Questions wait `waitMs` for credentials that this agent does not know yet. */
  constructor(
    { engine, logger, clock, pace }: Pick<AgentContext, 'engine' | 'logger' | 'clock' | 'pace'>,
    tables: Revisions,
    open: OpenOrigin,
    credentials: CredentialBook,
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
   * Opens the origin of a revision, whose manifest is open in the engine; when it has a base for all entries the engine
   * is given that and asks nothing. Without its credentials it is not opened: the engine then asks, and hears when they are
   * here.
   */
  prepare(of: DatasetRevision): void {
    if (this.#credentials.awaits(of.dataset)) return;
    const base = this.#known(of, this.#tables.revision(of)).origin.base();
    if (base !== undefined) this.#engine.setOriginBase(of, base);
  }

  /** Never throws. */
  answer(event: LocationsEvent): void {
    this.#answer(event).catch((thrown: unknown) => {
      if (!this.#stop.signal.aborted) this.#fail(event, event.entries, HearthError.from(thrown));
    });
  }

  async #answer(event: LocationsEvent): Promise<void> {
    const { manifest, dataset } = event;
    const of = { manifest, dataset };
    if (this.#credentials.awaits(dataset)) {
      const signal = within(this.#clock, this.#waitMs, this.#stop.signal);
      // Without them the origin is not opened below, with the reason.
      await this.#credentials.arrived(dataset, signal).catch(() => undefined);
    }
    // A revision that was just made may not have been heard of here.
    const record = this.#tables.revision(of) ?? (await this.#tables.readRevision(of));
    if (this.#stop.signal.aborted) return;
    const known = this.#known(of, record);
    const base = known.origin.base();
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
    const keys = [...this.#revisions.keys()].filter((key) => key.startsWith(`${manifest}/`));
    return keys.map((key) => key.slice(manifest.length + 1));
  }

  /** Forgets what is known of a revision and closes its origin. */
  forget(of: DatasetRevision): void {
    const asked = this.#drop(of);
    if (asked.length === 0) return;
    this.#fail(of, asked, new HearthError('NotFound', 'the dataset was removed; add it again'));
  }

  /** Opens the origin of a revision again: with other credentials. */
  renew(of: DatasetRevision): void {
    const entries = this.#drop(of);
    this.prepare(of);
    if (entries.length > 0) this.answer({ kind: 'locations', ...of, entries, ahead: [] });
  }

  /** Before the engine closes. What it still asks stays without an answer: its readers wait for the next agent. */
  close(): void {
    this.#stop.abort();
    for (const known of this.#revisions.values()) end(known);
    this.#revisions.clear();
  }

  /** Closes the origin and takes back what it gave; the entries that were asked for and have no answer yet. */
  #drop(of: DatasetRevision): number[] {
    const known = this.#revisions.get(keyOf(of));
    if (known === undefined) return [];
    this.#revisions.delete(keyOf(of));
    end(known);
    this.#engine.forgetLocations(of);
    return [...known.resolving, ...known.waiting];
  }

  #known(of: DatasetRevision, record: RevisionRecord | undefined): OfRevision {
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
      origin: this.#open(record.source, record.revision, this.#credentials.of(of.dataset), of.dataset),
      waiting: new Set(),
      ahead: new Set(),
      resolving: new Set(),
      cache: new Map(),
      turn: undefined,
    };
    this.#revisions.set(keyOf(of), made);
    return made;
  }

  #resolve(of: DatasetRevision, known: OfRevision): void {
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

  async #resolveBatch(of: DatasetRevision, known: OfRevision, entries: number[]): Promise<void> {
    const signal = within(this.#clock, resolveDeadlineMs, this.#stop.signal);
    // What was found by credentials that are not used any more is not given out.
    const isCurrent = () => !this.#stop.signal.aborted && this.#revisions.get(keyOf(of)) === known;
    try {
      const found = await known.origin.locate(await this.#engine.entriesAt(of.manifest, entries), signal);
      if (!isCurrent()) return;
      const givenAt = epochMs(this.#clock);
      for (const location of found) remember(known.cache, { location, givenAt });
      const located = new Set(found.map((location) => location.entry));
      const missing = entries.filter((entry) => !located.has(entry));
      this.#engine.setLocations(of, found);
      if (missing.length > 0)
        this.#fail(of, missing, new HearthError('NotFound', 'the origin has no location for these files'));
    } catch (thrown) {
      if (isCurrent()) this.#fail(of, entries, HearthError.from(thrown).within(`dataset ${of.dataset}`));
    } finally {
      for (const entry of entries) known.resolving.delete(entry);
    }
  }

  #fail({ manifest, dataset }: DatasetRevision, entries: number[], error: HearthError): void {
    this.#logger.warn('could not resolve locations', { manifest, dataset, entries: entries.length, error });
    this.#engine.failLocations({ manifest, dataset }, entries, { code: error.code, message: error.message });
  }
}

function keyOf({ manifest, dataset }: DatasetRevision): string {
  return `${manifest}/${dataset}`;
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
  if (cache.size > mostCached && oldest !== undefined) cache.delete(oldest);
}
