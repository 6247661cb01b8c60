import type { ListPinsResponse, PinResponse } from '@hearth/common/generated/hearth/v1/control.ts';
import { type Clock, sleep } from '@hearth/common/kubernetes';
import type { ClusterAgents } from '../agents/index.ts';
import { ownerPrefix, uidOfOwner } from './job_request.ts';
import { pinKey } from './observation.ts';
import type { Wanted } from './wanted.ts';

const pinDeadlineMs = 15_000;
const againAfterMs = 5_000;
/** Pins that are asked for within this time go by one call, milliseconds. */
const gatherMs = 5;
const maxOwners = 100;

interface Trouble {
  message: string;
  until: number;
}

/** The same files on the same nodes, for several CachePreloads. */
interface Gathered {
  owners: string[];
  answer: Promise<PinResponse>;
}

/**
 * The pins of all CachePreloads at the agents of one StorageCluster: read from the agents once, and then kept by what
 * they answer.
 */
export class PinCache {
  readonly #agents: Pick<ClusterAgents, 'call'>;
  readonly #clock: Clock;
  /** Nodes by owner, by uid. */
  #pins: Map<string, Map<string, Set<string>>> | undefined;
  readonly #troubles = new Map<string, Map<string, Trouble>>();
  #loading: Promise<void> | undefined;
  /** Pins came or went while they were not known: a list that is on its way may be without that. */
  #missed = false;
  readonly #gathered = new Map<string, Gathered>();

  /** `clock`: its date is that by which CachePreloads are stamped. */
  constructor(agents: Pick<ClusterAgents, 'call'>, clock: Clock) {
    this.#agents = agents;
    this.#clock = clock;
  }

  /** Reads them if they are not known. */
  async load(signal: AbortSignal): Promise<void> {
    if (this.#pins !== undefined) return;
    this.#loading ??= this.#read(signal).finally(() => {
      this.#loading = undefined;
    });
    await this.#loading;
  }

  /** The cached pins may be wrong: the next look reads them again. */
  forget(): void {
    this.#pins = undefined;
  }

  /** uids of CachePreloads that have pins. */
  uids(): string[] {
    return [...(this.#pins?.keys() ?? [])];
  }

  of(uid: string): ReadonlyMap<string, ReadonlySet<string>> | undefined {
    return this.#pins === undefined ? undefined : (this.#pins.get(uid) ?? new Map());
  }

  /** By owner and node. */
  troubles(uid: string): ReadonlyMap<string, Trouble> {
    return this.#troubles.get(uid) ?? new Map();
  }

  /** Agents that do not do it are left alone for a moment. */
  async pin(uid: string, owner: string, wanted: Wanted, nodes: readonly string[], signal: AbortSignal): Promise<void> {
    const troubles = this.#troubles.get(uid) ?? new Map<string, Trouble>();
    this.#troubles.set(uid, troubles);
    const until = this.#clock.date().getTime() + againAfterMs;
    try {
      const { nodes: done, failures } = await this.#gather(owner, wanted, nodes, signal);
      if (this.#pins === undefined) this.#missed = true;
      for (const node of done) {
        this.#nodesOf(uid, owner)?.add(node);
        troubles.delete(pinKey(owner, node));
      }
      for (const { node, message } of failures) troubles.set(pinKey(owner, node), { message, until });
    } catch (thrown) {
      // Some may have done it.
      this.forget();
      throw thrown;
    }
  }

  /** Many groups of pods that come at once want the same files: one call for all of them. */
  #gather(owner: string, wanted: Wanted, nodes: readonly string[], signal: AbortSignal): Promise<PinResponse> {
    const key = JSON.stringify([wanted.id, [...nodes].sort()]);
    const known = this.#gathered.get(key);
    if (known !== undefined && known.owners.length < maxOwners) {
      known.owners.push(owner);
      return known.answer;
    }
    const owners = [owner];
    const answer = sleep(this.#clock, gatherMs).then(() => {
      if (this.#gathered.get(key)?.owners === owners) this.#gathered.delete(key);
      const [first = '', ...moreOwners] = owners;
      const { registered: dataset, manifest, paths } = wanted;
      const what = {
        dataset,
        manifest,
        paths: [...paths],
        nodes: [...nodes],
        owner: first,
        moreOwners,
        tolerant: true,
      };
      return this.#agents.call('pin', what, { signal, deadlineMs: pinDeadlineMs });
    });
    this.#gathered.set(key, { owners, answer });
    return answer;
  }

  /** Pins of the owner on these nodes go, and are heard of as gone when the agents know of it. */
  async release(uid: string, owner: string, nodes: readonly string[], signal: AbortSignal): Promise<void> {
    await this.#agents.call('releasePins', { ownerPrefix: owner, nodes: [...nodes], exceptOwners: [] }, { signal });
    if (this.#pins === undefined) this.#missed = true;
    const known = this.#nodesOf(uid, owner);
    for (const node of nodes) known?.delete(node);
    if (known?.size === 0) this.#pins?.get(uid)?.delete(owner);
  }

  /** All pins of a CachePreload go. How many there were. */
  async releaseAll(uid: string, signal: AbortSignal): Promise<number> {
    const request = { ownerPrefix: ownerPrefix(uid), nodes: [], exceptOwners: [] };
    const { pins } = await this.#agents.call('releasePins', request, { signal });
    if (this.#pins === undefined) this.#missed = true;
    this.#pins?.delete(uid);
    this.#troubles.delete(uid);
    return pins;
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
      this.#missed = false;
      ({ pins } = await this.#agents.call('listPins', { ownerPrefix: ownerPrefix('') }, { signal }));
    } while (this.#missed);
    this.#pins = new Map();
    for (const { owner, node } of pins) {
      const uid = uidOfOwner(owner);
      if (uid !== undefined) this.#nodesOf(uid, owner)?.add(node);
    }
  }
}
