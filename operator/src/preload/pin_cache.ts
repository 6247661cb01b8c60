import type { ListPinsResponse, PinResponse } from '@hearth/common/generated/hearth/v1/control.ts';
import { type Clock, sleep } from '@hearth/common/kubernetes';
import type { ClusterAgents } from '../agents/index.ts';
import { pinKey } from './observation.ts';
import { ownerPrefix, uidOfOwner, type Wanted } from './wanted.ts';

const pinDeadlineMs = 15_000;
const retryAfterMs = 5_000;
/** Requests for the same pins within this time share one call, ms. */
const batchWindowMs = 5;
const maxOwners = 100;

type Trouble = { message: string; until: number };

type PinBatch = { owners: string[]; answer: Promise<PinResponse> };

/** The pins of all CachePreloads of one StorageCluster: lists them once, then follows the answers. */
export class PinCache {
  readonly #agents: Pick<ClusterAgents, 'call'>;
  readonly #clock: Clock;
  #pins: Map<string, Map<string, Set<string>>> | undefined;
  readonly #troubles = new Map<string, Map<string, Trouble>>();
  #loading: Promise<void> | undefined;
  /** A pin changed while `#read` waited for the list, which may not show the change. */
  #isListStale = false;
  readonly #batches = new Map<string, PinBatch>();

  constructor(agents: Pick<ClusterAgents, 'call'>, clock: Clock) {
    this.#agents = agents;
    this.#clock = clock;
  }

  async load(signal: AbortSignal): Promise<void> {
    if (this.#pins !== undefined) return;
    this.#loading ??= this.#read(signal).finally(() => {
      this.#loading = undefined;
    });
    await this.#loading;
  }

  forget(): void {
    this.#pins = undefined;
  }

  uids(): string[] {
    return [...(this.#pins?.keys() ?? [])];
  }

  of(uid: string): ReadonlyMap<string, ReadonlySet<string>> | undefined {
    return this.#pins === undefined ? undefined : (this.#pins.get(uid) ?? new Map());
  }

  troubles(uid: string): ReadonlyMap<string, Trouble> {
    return this.#troubles.get(uid) ?? new Map();
  }

  /** Records failures, which are not retried before `until`. */
  async pin(uid: string, owner: string, wanted: Wanted, nodes: readonly string[], signal: AbortSignal): Promise<void> {
    const troubles = this.#troubles.get(uid) ?? new Map<string, Trouble>();
    this.#troubles.set(uid, troubles);
    const until = this.#clock.date().getTime() + retryAfterMs;
    try {
      const { nodes: done, failures } = await this.#batch(owner, wanted, nodes, signal);
      if (this.#pins === undefined) this.#isListStale = true;
      for (const node of done) {
        this.#nodesOf(uid, owner)?.add(node);
        troubles.delete(pinKey(owner, node));
      }
      for (const { node, message } of failures) troubles.set(pinKey(owner, node), { message, until });
    } catch (thrown) {
      // Some nodes may have pinned.
      this.forget();
      throw thrown;
    }
  }

  /** Many groups of pods that start together want the same files. */
  #batch(owner: string, wanted: Wanted, nodes: readonly string[], signal: AbortSignal): Promise<PinResponse> {
    const key = JSON.stringify([wanted.id, [...nodes].sort()]);
    const known = this.#batches.get(key);
    if (known !== undefined && known.owners.length < maxOwners) {
      known.owners.push(owner);
      return known.answer;
    }
    const owners = [owner];
    const answer = sleep(this.#clock, batchWindowMs).then(() => {
      if (this.#batches.get(key)?.owners === owners) this.#batches.delete(key);
      const [first = '', ...moreOwners] = owners;
      const { registered: dataset, manifest, paths } = wanted;
      const files = { dataset, manifest, paths: [...paths], nodes: [...nodes] };
      const request = { ...files, owner: first, moreOwners, tolerant: true };
      return this.#agents.call('pin', request, { signal, deadlineMs: pinDeadlineMs });
    });
    this.#batches.set(key, { owners, answer });
    return answer;
  }

  async release(uid: string, owner: string, nodes: readonly string[], signal: AbortSignal): Promise<void> {
    await this.#agents.call('releasePins', { ownerPrefix: owner, nodes: [...nodes], exceptOwners: [] }, { signal });
    if (this.#pins === undefined) this.#isListStale = true;
    const known = this.#nodesOf(uid, owner);
    for (const node of nodes) known?.delete(node);
    if (known?.size === 0) this.#pins?.get(uid)?.delete(owner);
  }

  async releaseAll(uid: string, signal: AbortSignal): Promise<void> {
    const request = { ownerPrefix: ownerPrefix(uid), nodes: [], exceptOwners: [] };
    await this.#agents.call('releasePins', request, { signal });
    if (this.#pins === undefined) this.#isListStale = true;
    this.#pins?.delete(uid);
    this.#troubles.delete(uid);
  }

  #nodesOf(uid: string, owner: string): Set<string> | undefined {
    if (this.#pins === undefined) return undefined;
    const owners = this.#pins.get(uid) ?? new Map<string, Set<string>>();
    this.#pins.set(uid, owners);
    const nodes = owners.get(owner) ?? new Set();
    owners.set(owner, nodes);
    return nodes;
  }

  async #read(signal: AbortSignal): Promise<void> {
    let pins: ListPinsResponse['pins'];
    do {
      this.#isListStale = false;
      ({ pins } = await this.#agents.call('listPins', { ownerPrefix: ownerPrefix('') }, { signal }));
    } while (this.#isListStale);
    this.#pins = new Map();
    for (const { owner, node } of pins) {
      const uid = uidOfOwner(owner);
      if (uid !== undefined) this.#nodesOf(uid, owner)?.add(node);
    }
  }
}
