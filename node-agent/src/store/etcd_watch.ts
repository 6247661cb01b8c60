import type { ClientDuplexStream, Metadata } from '@grpc/grpc-js';
import { backOffMs, HearthError, sleep } from '@hearth/common';
import { type Bounds, bounded, cancelled } from './deadline.ts';
import type { EtcdConnection, EtcdMember } from './etcd_connection.ts';
import { etcdError, watchError } from './etcd_error.ts';
import { type EtcdKeys, toRevision } from './etcd_keys.ts';
import type { WatchRequest, WatchResponse } from './generated/etcd/rpc.ts';
import type { StoreEvent, WatchItem } from './store.ts';

/** Pauses between attempts. */
const backOff = { firstMs: 50, longestMs: 2_000 };

/** The identity and newest revision of the etcd, by a linearizable read. */
export type ReadIdentity = (bounds: Bounds) => Promise<{ identity: string; revision: number }>;

type WatchStream = ClientDuplexStream<WatchRequest, WatchResponse>;

/** Codes that end a watch; the watch waits out every other error. */
const finalCodes: ReadonlySet<string> = new Set([
  'PermissionDenied',
  'Unauthenticated',
  'InvalidArgument',
  'Unsupported',
]);

/** Time to open a stream before trying the next member, ms. */
const openMs = 5_000;

/** A watch over any number of streams: after a failure the next stream continues at the first unseen revision. */
export class EtcdWatch {
  readonly #connection: EtcdConnection;
  readonly #keys: EtcdKeys;
  readonly #readIdentity: ReadIdentity;
  readonly #prefix: string;
  /** Everything before this revision has been yielded. */
  #next: number;
  #identity: string | undefined;

  constructor(connection: EtcdConnection, keys: EtcdKeys, readIdentity: ReadIdentity, prefix: string, from: number) {
    this.#connection = connection;
    this.#keys = keys;
    this.#readIdentity = readIdentity;
    this.#prefix = prefix;
    this.#next = from;
  }

  async *items(signal: AbortSignal): AsyncGenerator<WatchItem, void> {
    const { clock, description } = this.#connection;
    const what = `A watch of ${description}`;
    for (let failures = 0; !signal.aborted; ) {
      let stream: WatchStream | undefined;
      const stop = (): void => stream?.cancel();
      signal.addEventListener('abort', stop, { once: true });
      try {
        stream = await this.#open(signal);
        const replaced = await this.#replacementReason(signal);
        if (replaced !== undefined) {
          yield { kind: 'compacted', reason: replaced };
          return;
        }
        for await (const item of this.#read(stream)) {
          failures = 0;
          yield item;
          if (item.kind === 'compacted') return;
        }
      } catch (thrown) {
        const error = etcdError(what, thrown);
        if (!signal.aborted && finalCodes.has(error.code)) throw error;
      } finally {
        signal.removeEventListener('abort', stop);
        stream?.cancel();
      }
      await sleep(clock, backOffMs(clock, failures++, backOff), signal);
    }
    throw cancelled(what);
  }

  /** A stream whose watch the member has accepted; consumes the answer that says so. */
  async #open(signal: AbortSignal): Promise<WatchStream> {
    return bounded('watch', { deadlineMs: openMs }, signal, this.#connection.clock, (bounds) =>
      this.#connection.call('watch', bounds, { repeatable: true }, (member, metadata, ended) =>
        this.#create(member, metadata, ended),
      ),
    );
  }

  async #create(member: EtcdMember, metadata: Metadata, signal: AbortSignal): Promise<WatchStream> {
    const stream = member.watch.watch(metadata);
    const started = Promise.withResolvers<void>();
    const give = (): void => {
      stream.cancel();
      started.reject(signal.reason);
    };
    signal.addEventListener('abort', give, { once: true });
    // Stays for the stream's whole life, because an error without a listener would end the process.
    stream.on('error', (error) => started.reject(error));
    stream.on('end', () =>
      started.reject(new HearthError('Unavailable', `${member.endpoint} ended the watch at once.`)),
    );
    stream.once('readable', () => started.resolve());
    stream.write({
      requestUnion: {
        $case: 'createRequest',
        value: {
          ...this.#keys.range(this.#prefix),
          startRevision: BigInt(this.#next),
          progressNotify: true,
          fragment: true,
        },
      },
    });
    try {
      await started.promise;
      const first: WatchResponse | null = stream.read();
      if (first?.canceled) {
        stream.cancel();
        throw watchError(first.cancelReason);
      }
      return stream;
    } finally {
      signal.removeEventListener('abort', give);
    }
  }

  /**
   * Returns the reason when etcd was replaced. Asked after the stream is open, so that no replacement goes unnoticed:
   * if the etcd behind the stream is replaced before this answer, the stream breaks and is opened again. An emptied
   * etcd counts revisions from 1 again, so a watch from the old next revision would silently miss events.
   */
  async #replacementReason(signal: AbortSignal): Promise<string | undefined> {
    const { clock } = this.#connection;
    const { identity, revision } = await bounded('watch', { deadlineMs: openMs }, signal, clock, this.#readIdentity);
    const known = this.#identity ?? identity;
    if (identity !== known) return 'the store was replaced by another';
    if (this.#next > revision + 1) return `the store is at revision ${revision}, before the ${this.#next} asked for`;
    this.#identity = identity;
    return undefined;
  }

  async *#read(stream: WatchStream): AsyncGenerator<WatchItem, void> {
    let events: StoreEvent[] = [];
    let last = 0;
    for await (const response of stream as AsyncIterable<WatchResponse>) {
      if (response.compactRevision > 0n) {
        yield {
          kind: 'compacted',
          reason: `revision ${this.#next} is no longer kept; the oldest is ${response.compactRevision}`,
        };
        return;
      }
      if (response.canceled) throw watchError(response.cancelReason);
      for (const event of response.events) {
        const revision = toRevision(event.kv?.modRevision);
        // Skips events that a member repeats after a reconnection.
        if (revision < this.#next) continue;
        last = revision;
        const translated = this.#keys.event(event);
        if (translated !== undefined) events.push(translated);
      }
      if (response.fragment) continue;
      if (response.events.length === 0) {
        // A progress report: the watch is complete up to this revision.
        this.#next = Math.max(this.#next, toRevision(response.header?.revision) + 1);
      } else if (last >= this.#next) {
        this.#next = last + 1;
        if (events.length > 0) yield { kind: 'events', events, revision: last };
        events = [];
      }
    }
  }
}
