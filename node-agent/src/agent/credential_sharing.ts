import { backOffMs, type Clock, HearthError, type Logger, sleep } from '@hearth/common';
import type { Credentials } from '@hearth/common/generated/hearth/v1/control.ts';
import { type CredentialCache, isEmpty } from '../credentials/index.ts';
import type { DatasetTables } from '../datasets/index.ts';
import type { Peers } from '../peers/index.ts';

const backOff = { firstMs: 500, longestMs: 30_000 };

/**
 * Sends credentials to all agents, and fetches the ones that this agent lost by its restart. Retries unreachable agents
 * while they are members. When all agents restart at once, the manager of the datasets must set the credentials again.
 */
export class CredentialSharing {
  readonly #cache: CredentialCache;
  readonly #tables: DatasetTables;
  readonly #peers: Peers;
  readonly #logger: Logger;
  readonly #clock: Clock;
  readonly #stop = new AbortController();
  /** Datasets whose credentials still have to be sent, by agent. */
  readonly #unsent = new Map<string, Set<string>>();
  readonly #running = new Map<string, Promise<void>>();
  readonly #off: (() => void)[];

  constructor(cache: CredentialCache, tables: DatasetTables, peers: Peers, logger: Logger, clock: Clock) {
    this.#cache = cache;
    this.#tables = tables;
    this.#peers = peers;
    this.#logger = logger;
    this.#clock = clock;
    this.#off = [
      tables.mirror.onChange((changes, { reread }) => {
        for (const { id, before, after } of changes) {
          // An emptied store does not remove credentials, because its datasets come back.
          if (before !== undefined && after === undefined && !reread) cache.forget(id);
          else if (before?.credentialed !== after?.credentialed) {
            if (after?.credentialed === false) cache.forget(id);
            cache.touch(id);
          }
        }
        this.#fetchMissing();
      }),
    ];
    this.#fetchMissing();
  }

  /**
   * Sets, or with empty credentials removes, the dataset's credentials here and at all agents. The dataset need not
   * exist yet. Where there were none, removing them asks no agent: a record without credentials has all forget them.
   */
  async set(dataset: string, credentials: Credentials, signal: AbortSignal): Promise<void> {
    const credentialed = !isEmpty(credentials);
    const concernsOthers = credentialed || this.#cache.isOwn(dataset);
    this.take(dataset, credentials);
    await this.#tables.datasets.update(
      dataset,
      (present) =>
        present === undefined || present.credentialed === credentialed ? undefined : { ...present, credentialed },
      { signal },
    );
    if (!concernsOthers) return;
    const sent = this.#peers.names().map((node) => this.#send(node, dataset));
    await Promise.all(sent);
  }

  /** Stores credentials received from another agent, without forwarding them. */
  take(dataset: string, credentials: Credentials): void {
    if (isEmpty(credentials)) this.#cache.forget(dataset);
    else this.#cache.set(dataset, credentials);
  }

  async close(): Promise<void> {
    this.#stop.abort();
    for (const off of this.#off) off();
    await Promise.all(this.#running.values());
  }

  /** Sends once now and retries failures in the background. Never throws. */
  async #send(node: string, dataset: string): Promise<void> {
    const unsent = this.#unsent.get(node) ?? new Set();
    this.#unsent.set(node, unsent.add(dataset));
    if (await this.#sendOnce(node, dataset)) return;
    this.#begin(`send ${node}`, () => this.#sendUntilDone(node));
  }

  async #sendUntilDone(node: string): Promise<void> {
    for (let failures = 0; ; failures++) {
      await this.#pause(failures);
      const unsent = this.#unsent.get(node);
      // An agent that went away asks by itself when it is back.
      const away = this.#peers.names().includes(node) === false;
      if (this.#stop.signal.aborted || unsent === undefined || away) break;
      await Promise.all([...unsent].map((dataset) => this.#sendOnce(node, dataset)));
    }
    this.#unsent.delete(node);
  }

  async #sendOnce(node: string, dataset: string): Promise<boolean> {
    const credentials = this.#cache.has(dataset) ? this.#cache.of(dataset) : undefined;
    try {
      await this.#peers.setCredentials(node, { dataset, credentials });
    } catch (thrown) {
      this.#logger.warn('failed to send changed credentials to an agent', {
        agent: node,
        dataset,
        error: HearthError.from(thrown),
      });
      return false;
    }
    const unsent = this.#unsent.get(node);
    unsent?.delete(dataset);
    if (unsent?.size === 0) this.#unsent.delete(node);
    return true;
  }

  #fetchMissing(): void {
    if (this.#peers.names().length === 0) return;
    const missing = this.#tables.mirror.values().some((dataset) => this.#cache.awaits(dataset.name));
    if (missing) this.#begin('fetch', () => this.#fetchUntilHere());
  }

  async #fetchUntilHere(): Promise<void> {
    for (let failures = 0; !this.#stop.signal.aborted; failures++) {
      const missing = this.#tables.mirror.values().filter((dataset) => this.#cache.awaits(dataset.name));
      if (missing.length === 0) return;
      for (const { name } of missing) await this.#fetch(name);
      if (missing.every(({ name }) => !this.#cache.awaits(name))) continue;
      await this.#pause(failures);
    }
  }

  async #fetch(dataset: string): Promise<void> {
    /** From an agent without support for mirrors: used only when no other agent has more. */
    let ofSource: Credentials | undefined;
    for (const node of this.#peers.names()) {
      if (!this.#cache.awaits(dataset) || this.#stop.signal.aborted) return;
      try {
        const answer = await this.#peers.getCredentials(node, { dataset });
        if (answer?.known !== true || answer.credentials === undefined || isEmpty(answer.credentials)) continue;
        if (this.#lacksThoseOfMirrors(dataset, answer.credentials)) {
          ofSource = answer.credentials;
          continue;
        }
        this.#setMissing(dataset, answer.credentials);
        this.#logger.info('received credentials from another agent', { dataset, agent: node });
      } catch (thrown) {
        const error = HearthError.from(thrown);
        this.#logger.debug('failed to fetch credentials from an agent', { agent: node, dataset, error });
      }
    }
    if (ofSource !== undefined) this.#setMissing(dataset, ofSource);
  }

  /** Another agent may have set newer ones in the meantime. */
  #setMissing(dataset: string, credentials: Credentials): void {
    if (this.#cache.awaits(dataset)) this.#cache.set(dataset, credentials);
  }

  /** True when the credentials came from an agent whose release does not support mirrors. */
  #lacksThoseOfMirrors(dataset: string, { mirrors }: Credentials): boolean {
    const wanted = this.#tables.mirror.get(dataset)?.source.mirrors?.credentialed ?? [];
    return wanted.length > 0 && mirrors === undefined;
  }

  #begin(what: string, work: () => Promise<void>): void {
    if (this.#running.has(what) || this.#stop.signal.aborted) return;
    const running = work().finally(() => this.#running.delete(what));
    this.#running.set(what, running);
  }

  async #pause(failures: number): Promise<void> {
    await sleep(this.#clock, backOffMs(this.#clock, failures, backOff), this.#stop.signal);
  }
}
