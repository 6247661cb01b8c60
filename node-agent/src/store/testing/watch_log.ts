import type { Store, StoreEvent, WatchItem } from '../store.ts';

/** Collects the events of a watch until it ends. */
export class WatchLog {
  readonly items: WatchItem[] = [];
  readonly ended: Promise<void>;
  /** The error that the watch threw. */
  error: unknown;
  readonly #stop = new AbortController();

  constructor(store: Store, prefix: string, from: number) {
    this.ended = this.#collect(store, prefix, from);
  }

  get events(): StoreEvent[] {
    return this.items.flatMap((item) => (item.kind === 'events' ? item.events : []));
  }

  /** Each event as one word: `+key=value@revision` or `-key@revision`. */
  get words(): string[] {
    return this.events.map((event) =>
      event.kind === 'put'
        ? `+${event.entry.key}=${event.entry.value}@${event.entry.modRevision}`
        : `-${event.key}@${event.revision}`,
    );
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.ended;
  }

  async #collect(store: Store, prefix: string, from: number): Promise<void> {
    try {
      for await (const item of store.watch(prefix, from, { signal: this.#stop.signal })) this.items.push(item);
    } catch (thrown) {
      this.error = thrown;
    }
  }
}
