import { backOffMs, type Clock, HearthError, type Logger, systemClock } from '@hearth/common';
import type { Peer } from '@hearth/engine';
import { z } from 'zod';
import type { Member, Members } from '../context.ts';
import { Mirror, RecordTable, type Session, unlessAborted } from '../records/index.ts';
import type { KeyValue, LeaseId, Store } from '../store/index.ts';
import { type NodeRecord, nodePrefix, nodeRecord } from './record.ts';
import { SortedByNode } from './sorted_by_node.ts';
import { Wake } from './wake.ts';

/** State of this agent's registration. */
export type MembershipState =
  /** Other agents see this one. */
  | { readonly kind: 'member' }
  /** Other agents may not see this one, now or soon; registration is retried for as long as the agent runs. */
  | { readonly kind: 'degraded'; readonly reason: string };

export interface MembershipOptions {
  readonly store: Store;
  /** The session whose lease carries the record. The caller closes it after this. */
  readonly session: Session;
  readonly logger: Logger;
  readonly clock?: Clock;
  readonly self: z.input<typeof nodeRecord>;
  /** Time after which an earlier holder of this agent's name counts as alive: its lease plus a margin. */
  readonly takeoverMs?: number;
}

const retries = { firstMs: 200, longestMs: 5_000 };

type Claim = { readonly kind: 'registered' } | { readonly kind: 'taken'; readonly by: NodeRecord };

/**
 * The live agents. Registers this agent under its lease, again after each loss of the record (an expired lease after an
 * outage of the store or a suspended process, an emptied store), and watches the other agents. During an outage of the
 * store the last known view stays. Listeners and getters run synchronously and never block.
 */
export class Membership implements Members {
  readonly #table: RecordTable<typeof nodeRecord>;
  readonly #mirror: Mirror<typeof nodeRecord>;
  readonly #session: Session;
  readonly #logger: Logger;
  readonly #clock: Clock;
  readonly #takeoverMs: number;
  readonly #stop = new AbortController();
  readonly #wake: Wake;
  readonly #registered = Promise.withResolvers<void>();
  readonly #detach: (() => void)[];
  readonly #ended: Promise<void>;
  #self: NodeRecord;
  /** The other agents by name, without records under another name than their own. */
  readonly #others = new SortedByNode();
  /** Answer of `all`; undefined after a change. */
  #all: readonly Member[] | undefined;
  /** Reason why this agent is not registered; undefined when it is. */
  #trouble: string | undefined = 'it has not registered yet';
  /** Lease and content of the record in the store. */
  #written: { readonly lease: LeaseId; readonly record: NodeRecord } | undefined;

  /** Starts at once. Throws `InvalidArgument` for an invalid `self`. */
  constructor({ store, session, logger, clock = systemClock, self, takeoverMs = 15_000 }: MembershipOptions) {
    const checked = nodeRecord.safeParse(self);
    if (!checked.success) {
      const reason = z.prettifyError(checked.error);
      throw new HearthError('InvalidArgument', `This agent's description of itself cannot be used: ${reason}.`);
    }
    this.#self = checked.data;
    this.#session = session;
    this.#logger = logger;
    this.#clock = clock;
    this.#wake = new Wake(clock);
    this.#takeoverMs = takeoverMs;
    this.#table = new RecordTable(store, nodePrefix, nodeRecord);
    this.#mirror = new Mirror(this.#table, logger);
    this.#detach = [
      this.#mirror.onChange((changes) => this.#watched(changes)),
      session.onLost(() => this.#wake.ring()),
    ];
    this.#registered.promise.catch(() => undefined);
    this.#ended = this.#run();
  }

  /**
   * Resolves when this agent is registered and has seen the other agents. Throws `InUse` when a living agent has its
   * name, while registration is still retried until close. Waits out outages of the store until the signal aborts.
   */
  async joined(signal?: AbortSignal): Promise<void> {
    await unlessAborted(this.#registered.promise, signal, this.#stop.signal);
    await this.#mirror.ready(signal);
    const seen = (): true | undefined =>
      this.#mirror.get(this.#self.node)?.incarnation === this.#self.incarnation ? true : undefined;
    await this.#mirror.waitFor(seen, signal ?? this.#stop.signal);
  }

  get self(): NodeRecord {
    return this.#self;
  }

  get standing(): MembershipState {
    if (this.#trouble !== undefined) return { kind: 'degraded', reason: this.#trouble };
    if (this.#session.alive) return { kind: 'member' };
    return { kind: 'degraded', reason: 'the store does not answer, so other agents may consider this agent dead' };
  }

  /** Publishes in the background that this agent is ready, or the reason why not. */
  setReady(ready: boolean, reason: string): void {
    const published = ready ? '' : reason.slice(0, 1024);
    if (ready !== this.#self.ready || published !== this.#self.reason) this.#change({ ready, reason: published });
  }

  /** Publishes the address of this agent's control API in the background. */
  setControl(address: string): void {
    this.#change({ control: address });
  }

  /**
   * Publishes in the background that this agent has its cache. `wire`: where peers get its bytes; `installation`:
   * guaranteed by the cache's lock.
   */
  setCache({ wire, installation }: Pick<NodeRecord, 'wire' | 'installation'>): void {
    this.#change({ wire, installation });
  }

  /** Publishes this agent's place in the background. Throws `InvalidArgument` for invalid names. */
  setPlace(zone: string, rack: string): void {
    const checked = nodeRecord.safeParse({ ...this.#self, zone, rack });
    if (!checked.success) {
      throw new HearthError('InvalidArgument', `the zone and rack cannot be used: ${z.prettifyError(checked.error)}`);
    }
    if (zone !== this.#self.zone || rack !== this.#self.rack) this.#change({ zone, rack });
  }

  /** Records of the other agents, sorted by name. */
  peers(): NodeRecord[] {
    return [...this.#others.records];
  }

  /** Agents with a cache, including this one, in the engine's form. */
  cluster(): Peer[] {
    const caching = this.#everyone().filter(({ wire }) => wire.length > 0);
    return caching.map(({ node, incarnation, wire, zone, rack, ready }) => ({
      node,
      incarnation,
      addresses: wire,
      zone,
      rack,
      ready,
    }));
  }

  all(): readonly Member[] {
    this.#all ??= this.#everyone().map(({ incarnation, installation, ...member }) => member);
    return this.#all;
  }

  names(): Set<string> {
    return new Set(this.#everyone().map((record) => record.node));
  }

  caching(): Set<string> {
    return new Set(this.#everyone().flatMap(({ node, wire }) => (wire.length > 0 ? [node] : [])));
  }

  ready(): string[] {
    return this.#everyone().flatMap((record) => (record.ready ? [record.node] : []));
  }

  /** Calls the listener after each change of the view. Returns a function that unsubscribes. */
  onChange(listener: () => void): () => void {
    return this.#mirror.onChange((changes) => {
      if (changes.length > 0) listener();
    });
  }

  /**
   * Deletes this agent's record, so that other agents need not wait for its lease to expire, and stops. Never throws.
   */
  async close(): Promise<void> {
    if (!this.#stop.signal.aborted) {
      this.#stop.abort();
      this.#wake.ring();
      for (const detach of this.#detach) detach();
      await this.#ended;
      await this.#leave();
      await this.#mirror.close();
    }
    await this.#ended;
  }

  #change(fields: Partial<NodeRecord>): void {
    this.#self = { ...this.#self, ...fields };
    this.#all = undefined;
    this.#wake.ring();
  }

  /** All records, sorted by name, with this agent's own state in place of the one in the store. */
  #everyone(): NodeRecord[] {
    return this.#others.with(this.#self);
  }

  #watched(changes: readonly { id: string; after: NodeRecord | undefined }[]): void {
    if (changes.length > 0) this.#all = undefined;
    for (const { id, after } of changes) {
      if (id === this.#self.node) {
        if (after?.incarnation !== this.#self.incarnation) this.#written = undefined;
        this.#wake.ring();
      } else if (after === undefined) {
        this.#others.delete(id);
      } else if (after.node === id) {
        this.#others.put(after);
      } else {
        this.#others.delete(id);
        this.#logger.error('ignoring an agent that registered under the name of another node', { key: id });
      }
    }
  }

  async #run(): Promise<void> {
    const signal = this.#stop.signal;
    let failures = 0;
    let takenSince: number | undefined;
    while (!signal.aborted) {
      let again: number | undefined;
      try {
        const claim = await this.#claim(signal);
        failures = 0;
        if (claim.kind === 'registered') {
          takenSince = undefined;
          this.#settle();
        } else {
          takenSince ??= this.#clock.now();
          this.#contend(claim.by, this.#clock.now() - takenSince >= this.#takeoverMs);
          // While the watch is being renewed, the other record may disappear unnoticed.
          again = Math.min(retries.longestMs, this.#takeoverMs / 5);
        }
      } catch (thrown) {
        if (signal.aborted) return;
        const error = HearthError.from(thrown);
        again = backOffMs(this.#clock, failures++, retries);
        this.#degrade(`it cannot be registered: ${error.message}`, { error, pauseMs: Math.round(again) });
      }
      await this.#wake.wait(again);
    }
  }

  /** Makes the record in the store this agent's current one, unless another agent's is there. */
  async #claim(signal: AbortSignal): Promise<Claim> {
    for (;;) {
      const lease = await this.#session.lease(signal);
      const record = this.#self;
      if (this.#written?.lease === lease && this.#written.record === record) return { kind: 'registered' };
      const key = this.#table.key(record.node);
      const entry = await this.#table.store.get(key, { signal });
      const holder = entry === undefined ? undefined : this.#holder(entry);
      if (holder !== undefined && !isSuccessor(record, holder)) return { kind: 'taken', by: holder };
      const { succeeded } = await this.#table.store.transact(
        {
          compare: [{ key, modRevision: entry?.modRevision ?? 0 }],
          success: [this.#table.putOperation(record.node, record, lease)],
        },
        { signal },
      );
      if (!succeeded) continue;
      this.#written = { lease, record };
    }
  }

  /** Undefined for an unreadable record, which blocks nobody. */
  #holder(entry: KeyValue): NodeRecord | undefined {
    try {
      return this.#table.decode(entry).value;
    } catch (thrown) {
      // A record of a later release blocks until its lease has expired.
      if (HearthError.from(thrown).code === 'Unsupported') throw thrown;
      return undefined;
    }
  }

  #settle(): void {
    if (this.#trouble !== undefined) this.#logger.info('registered in the cluster', { node: this.#self.node });
    this.#trouble = undefined;
    this.#registered.resolve();
  }

  /** Until the lease of a dead predecessor expires, it looks like a living agent. */
  #contend(by: NodeRecord, alive: boolean): void {
    this.#written = undefined;
    if (!alive) {
      this.#degrade(`waiting for the lease of an earlier agent named '${by.node}' to end`, {});
      return;
    }
    const at = by.wire.map(({ host, port }) => `${host}:${port}`).join(', ') || 'an unknown address';
    const reason = `another agent is running as '${by.node}' at ${at}; stop it, or give this one another name`;
    this.#degrade(reason, { incarnation: by.incarnation });
    this.#registered.reject(new HearthError('InUse', `This agent cannot join: ${reason}.`));
  }

  #degrade(reason: string, fields: Record<string, unknown>): void {
    if (reason !== this.#trouble) this.#logger.warn('failed to register this agent; retrying', { reason, ...fields });
    this.#trouble = reason;
  }

  async #leave(): Promise<void> {
    const key = this.#table.key(this.#self.node);
    const options = { deadlineMs: 2_000 };
    try {
      const entry = await this.#table.store.get(key, options);
      if (entry === undefined || this.#holder(entry)?.incarnation !== this.#self.incarnation) return;
      const compare = [{ key, modRevision: entry.modRevision }];
      await this.#table.store.transact({ compare, success: [{ kind: 'delete', key }] }, options);
    } catch (thrown) {
      const error = HearthError.from(thrown);
      this.#logger.warn('failed to delete the record of this agent; it expires with its lease', { error });
    }
  }
}

/** True when the record in the store is this agent's own, or of an ended process of this installation. */
function isSuccessor(self: NodeRecord, holder: NodeRecord): boolean {
  if (holder.incarnation === self.incarnation) return true;
  return self.installation !== '' && holder.installation === self.installation;
}
