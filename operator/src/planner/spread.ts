import type { PodGroup, TopologySpread } from './input.ts';
import type { NodeSet } from './node_set.ts';
import type { Nodes } from './nodes.ts';
import { type PodCensus, podSelector, selects } from './pod_census.ts';

/** The node sets that a constraint may count. */
export type Countable = { labelled: NodeSet; selected: NodeSet; tolerated: NodeSet };

/** One constraint and its pod count in each domain. */
class Constraint {
  readonly #maxSkew: number;
  readonly #minDomains: number;
  readonly #domainOf: Int32Array;
  readonly #pods: Int32Array;
  /** Counted domains, empty ones included. */
  readonly #domains: readonly number[];
  /** 1 when the constraint counts the pod itself. */
  readonly #self: number;
  /** False for an empty selector, which counts no pod (see PodCensus). */
  readonly #counts: boolean;
  #least = 0;
  /** The number of domains with `#least` pods. */
  #atLeast = 0;

  constructor(nodes: Nodes, census: PodCensus, spread: TopologySpread, pod: PodGroup, countable: NodeSet) {
    const { of, values } = nodes.column(spread.topologyKey);
    const selector = podSelector(spread.selector, spread.matchLabelKeys, pod.labels);
    this.#maxSkew = spread.maxSkew;
    this.#minDomains = spread.minDomains ?? 1;
    this.#domainOf = of;
    this.#self = selects(selector, pod.labels) ? 1 : 0;
    this.#counts = selector.requirements.length > 0;
    this.#pods = new Int32Array(values.length);
    this.#domains = domains(of, values.length, countable);
    census.each(pod.namespace, selector, (node) => {
      if (countable.has(node)) this.#add(of[node] as number);
    });
    this.#settle();
  }

  #add(domain: number): void {
    if (domain >= 0) this.#pods[domain] = (this.#pods[domain] as number) + 1;
  }

  #settle(): void {
    let least = Number.POSITIVE_INFINITY;
    let count = 0;
    for (const domain of this.#domains) {
      const pods = this.#pods[domain] as number;
      if (pods < least) {
        least = pods;
        count = 1;
      } else if (pods === least) {
        count++;
      }
    }
    this.#least = least;
    this.#atLeast = count;
  }

  /** The scheduler's criterion: matching pods with this one, less the global minimum, must not exceed maxSkew. */
  allows(node: number): boolean {
    const domain = this.#domainOf[node] as number;
    if (domain < 0) return false;
    // Missing domains count as empty.
    const least = this.#domains.length < this.#minDomains ? 0 : this.#least;
    return (this.#pods[domain] as number) + this.#self - least <= this.#maxSkew;
  }

  load(node: number): number {
    const domain = this.#domainOf[node] as number;
    return domain < 0 ? Number.POSITIVE_INFINITY : (this.#pods[domain] as number);
  }

  place(node: number): void {
    if (this.#self === 0 || !this.#counts) return;
    const domain = this.#domainOf[node] as number;
    const before = this.#pods[domain] as number;
    this.#add(domain);
    if (before === this.#least && --this.#atLeast === 0) this.#settle();
  }
}

function domains(of: Int32Array, count: number, countable: NodeSet): number[] {
  const found: number[] = [];
  const seen = new Uint8Array(count);
  for (let node = 0; node < of.length; node++) {
    const domain = of[node] as number;
    if (domain < 0 || seen[domain] === 1 || !countable.has(node)) continue;
    seen[domain] = 1;
    found.push(domain);
  }
  return found;
}

/** PodTopologySpread for the pods of one group in turn. */
export class Spread {
  readonly #hard: readonly Constraint[];
  readonly #soft: readonly Constraint[];

  constructor(nodes: Nodes, census: PodCensus, pod: PodGroup, countable: Countable) {
    const constraint = (spread: TopologySpread) => {
      let set = countable.labelled;
      if (spread.honorAffinity) set = set.and(countable.selected);
      if (spread.honorTaints) set = set.and(countable.tolerated);
      return new Constraint(nodes, census, spread, pod, set);
    };
    this.#hard = pod.spread.filter(({ hard }) => hard).map(constraint);
    this.#soft = pod.spread.filter(({ hard }) => !hard).map(constraint);
  }

  allows(node: number): boolean {
    for (const constraint of this.#hard) if (!constraint.allows(node)) return false;
    return true;
  }

  /** Matching pods in the node's domains of soft constraints; fewer is better. */
  load(node: number): number {
    let load = 0;
    for (const constraint of this.#soft) load += constraint.load(node);
    return load;
  }

  place(node: number): void {
    for (const constraint of this.#hard) constraint.place(node);
    for (const constraint of this.#soft) constraint.place(node);
  }
}
