import { HearthError, type Logger } from '@hearth/common';
import type { Engine, Location, Question } from '@hearth/engine';
import type { AgentContext } from '../context.ts';
import type { CredentialBook } from '../credentials/index.ts';
import type { Origin } from '../origins/origin.ts';
import type { RevisionRecord } from './record.ts';
import type { OpenOrigin } from './resolution.ts';

/** Questions of one manifest are gathered for this long and answered together. */
const gatherMs = 5;
const batchEntries = 256;
/** A location is not given out when it expires sooner than this. */
const marginMs = 60_000;
/** An entry asked for again so soon after its answer was refused by the origin: it is resolved anew. */
const refusedMs = 30_000;
const mostCached = 100_000;
const resolveDeadlineMs = 60_000;

interface Cached {
  location: Location;
  givenAt: number;
}

interface OfManifest {
  origin: Origin;
  dataset: string;
  waiting: Set<number>;
  /** Entries that are being resolved now. */
  resolving: Set<number>;
  cache: Map<number, Cached>;
  timer: NodeJS.Timeout | undefined;
}

/**
 * Answers the engine's question where entries can be read. Each entry is resolved by one request at a time;
 * what was resolved is kept in memory until it expires. Every question is answered, by failure if need be, until
 * `close`.
 */
export class Locations {
  readonly #engine: Engine;
  readonly #logger: Logger;
  readonly #find: (digest: string) => RevisionRecord | undefined;
  readonly #open: OpenOrigin;
  readonly #credentials: CredentialBook;
  readonly #waitMs: number;
  readonly #manifests = new Map<string, OfManifest>();
  readonly #stop = new AbortController();

  /** Questions wait `waitMs` for credentials that this agent does not know yet. */
  constructor(
    { engine, logger, pace }: Pick<AgentContext, 'engine' | 'logger' | 'pace'>,
    find: (digest: string) => RevisionRecord | undefined,
    open: OpenOrigin,
    credentials: CredentialBook,
  ) {
    this.#engine = engine;
    this.#logger = logger;
    this.#find = find;
    this.#open = open;
    this.#credentials = credentials;
    this.#waitMs = pace.requestMs;
  }

  /**
   * Opens the origin of a manifest; when it has a base for all entries the engine is told and asks nothing. Without
   * its credentials it is not opened: the engine then asks, and hears when they are here.
   */
  prepare(digest: string): void {
    if (this.#awaits(digest) !== undefined) return;
    const base = this.#ofManifest(digest).origin.base();
    if (base !== undefined) this.#engine.setOriginBase(digest, base);
  }

  answer(question: Extract<Question, { kind: 'locations' }>): void {
    const awaiting = this.#awaits(question.manifest);
    if (awaiting === undefined) {
      this.#answer(question);
      return;
    }
    const signal = AbortSignal.any([this.#stop.signal, AbortSignal.timeout(this.#waitMs)]);
    const answer = () => this.#answer(question);
    this.#credentials.arrived(awaiting, signal).then(answer, answer);
  }

  /** The dataset of the manifest, when its credentials are not here yet. */
  #awaits(digest: string): string | undefined {
    const dataset = this.#find(digest)?.dataset;
    return dataset !== undefined && this.#credentials.awaits(dataset) ? dataset : undefined;
  }

  #answer(question: Extract<Question, { kind: 'locations' }>): void {
    if (this.#stop.signal.aborted) return;
    let known: OfManifest;
    try {
      known = this.#ofManifest(question.manifest);
    } catch (thrown) {
      this.#fail(question.manifest, question.entries, HearthError.from(thrown));
      return;
    }
    const ready: Location[] = [];
    const now = Date.now();
    for (const entry of question.entries) {
      const cached = known.cache.get(entry);
      if (cached !== undefined && isUsable(cached, now)) {
        cached.givenAt = now;
        ready.push(cached.location);
      } else if (!known.resolving.has(entry)) known.waiting.add(entry);
    }
    if (ready.length > 0) this.#engine.setLocations(question.manifest, ready);
    if (known.waiting.size > 0) known.timer ??= setTimeout(() => this.#resolve(question.manifest, known), gatherMs);
  }

  /** Forgets what is known of a manifest and closes its origin. */
  forget(digest: string): void {
    const waiting = this.#drop(digest);
    if (waiting.length === 0) return;
    this.#fail(digest, waiting, new HearthError('NotFound', 'the dataset was removed; add it again'));
  }

  /** Opens the origin of a manifest anew: with other credentials, or that of another dataset. */
  renew(digest: string): void {
    const entries = this.#drop(digest);
    this.prepare(digest);
    if (entries.length > 0) this.answer({ kind: 'locations', manifest: digest, entries });
  }

  /** Before the engine closes. What it still asks stays without an answer: its readers wait for the next agent. */
  close(): void {
    this.#stop.abort();
    for (const digest of [...this.#manifests.keys()]) this.#drop(digest);
  }

  /** Closes the origin; the entries that were asked for and not yet looked up. */
  #drop(digest: string): number[] {
    const known = this.#manifests.get(digest);
    if (known === undefined) return [];
    this.#manifests.delete(digest);
    clearTimeout(known.timer);
    known.origin.close();
    return [...known.waiting];
  }

  #ofManifest(digest: string): OfManifest {
    const known = this.#manifests.get(digest);
    if (known !== undefined) return known;
    const found = this.#find(digest);
    if (found === undefined)
      throw new HearthError(
        'NotFound',
        'no dataset of this cluster has a revision with this manifest: it was removed, or the store was emptied; add it in this state again',
      );
    const made: OfManifest = {
      origin: this.#open(found.source, found.revision, this.#credentials.of(found.dataset), found.dataset),
      dataset: found.dataset,
      waiting: new Set(),
      resolving: new Set(),
      cache: new Map(),
      timer: undefined,
    };
    this.#manifests.set(digest, made);
    return made;
  }

  #resolve(digest: string, known: OfManifest): void {
    known.timer = undefined;
    const entries = [...known.waiting];
    known.waiting.clear();
    for (const entry of entries) known.resolving.add(entry);
    for (let at = 0; at < entries.length; at += batchEntries)
      void this.#resolveBatch(digest, known, entries.slice(at, at + batchEntries));
  }

  async #resolveBatch(digest: string, known: OfManifest, entries: number[]): Promise<void> {
    const signal = AbortSignal.any([this.#stop.signal, AbortSignal.timeout(resolveDeadlineMs)]);
    try {
      const found = await known.origin.locate(await this.#engine.entriesAt(digest, entries), signal);
      const givenAt = Date.now();
      for (const location of found) remember(known.cache, { location, givenAt });
      const located = new Set(found.map((location) => location.entry));
      const missing = entries.filter((entry) => !located.has(entry));
      if (this.#stop.signal.aborted) return;
      this.#engine.setLocations(digest, found);
      if (missing.length > 0)
        this.#fail(digest, missing, new HearthError('NotFound', 'the origin has no location for these files'));
    } catch (thrown) {
      if (!this.#stop.signal.aborted)
        this.#fail(digest, entries, HearthError.from(thrown).within(`dataset ${known.dataset}`));
    } finally {
      for (const entry of entries) known.resolving.delete(entry);
    }
  }

  #fail(digest: string, entries: number[], error: HearthError): void {
    this.#logger.warn('locations could not be resolved', { manifest: digest, entries: entries.length, error });
    this.#engine.failLocations(digest, entries, { code: error.code, message: error.message });
  }
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
