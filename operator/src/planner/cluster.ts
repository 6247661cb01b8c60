import { Caches } from './caches.ts';
import type { PlanInput, PodGroup } from './input.ts';
import { Places } from './nearness.ts';
import type { NodeSet } from './node_set.ts';
import { Nodes } from './nodes.ts';
import { PodCensus, Repulsions } from './pod_census.ts';
import { Ports, type Request, Resources } from './resources.ts';
import { Spread } from './spread.ts';
import { type Allowed, StaticFilter } from './static_filter.ts';

export interface Feasible extends Allowed {
  request: Request;
  /** By node: how many pods fit, topology spread aside. */
  slots: Int32Array;
  free: readonly number[];
}

/** The cluster while groups are planned one after another: running pods, planned pods, and the remaining room. */
export class Cluster {
  readonly nodes: Nodes;
  readonly places: Places;
  readonly filter: StaticFilter;
  readonly resources: Resources;
  readonly caches: Caches;
  readonly #ports = new Ports();
  readonly #census: PodCensus;
  readonly #repulsions: Repulsions;

  constructor({ nodes, running, groups, datasets }: PlanInput) {
    this.nodes = new Nodes(nodes);
    this.places = new Places(this.nodes);
    this.filter = new StaticFilter(this.nodes);
    this.resources = new Resources(
      this.nodes.all,
      groups.map(({ requests }) => requests),
    );
    this.caches = new Caches(this.nodes, datasets, groups);
    this.#repulsions = new Repulsions(this.nodes);
    this.#census = new PodCensus(groups.flatMap(({ namespace, spread }) => (spread.length > 0 ? [namespace] : [])));
    for (const pod of running) {
      const node = this.nodes.indexOf(pod.node);
      if (node === undefined) continue;
      const lasting = pod.lasting === true;
      this.resources.take(node, pod.requests, lasting);
      this.#ports.take(node, pod.hostPorts, lasting);
      this.#repulsions.add(node, pod);
      if (!pod.deleting) this.#census.add(pod.namespace, pod.labels, node);
    }
  }

  feasible(group: PodGroup): Feasible {
    const allowed = this.filter.allowed(group);
    const request = this.resources.request(group.requests);
    const open = allowed.now.without(this.#repulsions.refusing(group.namespace, group.labels));
    const nodes = this.#ports.free(open.indexes(), group.hostPorts);
    // Two pods with the same host port never share a node.
    const slots = this.resources.slots(nodes, request, group.hostPorts.length > 0 ? 1 : group.pods.length);
    return { ...allowed, request, slots, free: nodes.filter((node) => (slots[node] as number) > 0) };
  }

  /** Nodes that could take a pod once only DaemonSet pods remain. */
  everFeasible(group: PodGroup, feasible: Feasible): number[] {
    return feasible.ever.indexes().filter((node) => this.couldTake(group, feasible, node));
  }

  couldTake({ hostPorts }: PodGroup, { request }: Feasible, node: number): boolean {
    return this.resources.fitsEver(node, request) && this.#ports.freeEver(node, hostPorts);
  }

  /** `within`: the nodes that the affinity will name, so that topology spread counts no others. */
  spread(group: PodGroup, { selected }: Allowed, within?: NodeSet): Spread {
    return new Spread(this.nodes, this.#census, group, {
      labelled: this.nodes.labelled(group.spread.flatMap(({ hard, topologyKey }) => (hard ? [topologyKey] : []))),
      selected: within === undefined ? selected : selected.and(within),
      tolerated: this.filter.tolerated(group.tolerations),
    });
  }

  place({ requests, hostPorts, namespace, labels }: PodGroup, node: number): void {
    this.resources.take(node, requests, false);
    this.#ports.take(node, hostPorts, false);
    this.#census.add(namespace, labels, node);
  }
}
