import { startupTaintKeys } from '@hearth/common/resources';
import { hardTaints, isTolerated } from '../kubernetes/index.ts';
import type { PlannedNode, PodGroup, Taint, Toleration } from './input.ts';
import { NodeSet } from './node_set.ts';
import { hostnameLabel, type Nodes } from './nodes.ts';

type Template = Pick<PodGroup, 'nodeSelector' | 'requiredTerms' | 'tolerations' | 'spread'>;

/** The nodes allowed for a template, running pods aside. */
export interface Allowed {
  selected: NodeSet;
  /** Also passes taints, cordons and labels of topology spread. */
  now: NodeSet;
  /** Like `now`, and nodes that wait for their agent. */
  ever: NodeSet;
}

interface Tolerated {
  now: NodeSet;
  ever: NodeSet;
  /** For topology spread, which ignores cordons. */
  taints: NodeSet;
}

/**
 * Scheduler filters that ignore running pods: NodeUnschedulable, TaintToleration, NodeAffinity, and the labels of hard
 * topology spread. Caches results by input.
 */
export class StaticFilter {
  readonly #nodes: Nodes;
  readonly #taintsOf: Int32Array;
  readonly #taints: { all: readonly Taint[]; hard: readonly Taint[]; serves: boolean }[] = [];
  readonly #selected = new Map<string, NodeSet>();
  readonly #tolerated = new Map<string, Tolerated>();
  readonly #soft: readonly { node: number; taints: readonly Taint[] }[];
  readonly #reluctance = new Map<string, Int32Array>();
  /** Nodes with an agent and a unique hostname, which affinity can name. */
  readonly serving: NodeSet;

  constructor(nodes: Nodes) {
    this.#nodes = nodes;
    const hostnames = nodes.column(hostnameLabel);
    const bearers = new Int32Array(hostnames.values.length);
    for (const host of hostnames.of) if (host >= 0) bearers[host] = (bearers[host] as number) + 1;
    this.serving = NodeSet.where(nodes.size, (node) => {
      const host = hostnames.of[node] as number;
      return nodes.at(node).agent !== undefined && host >= 0 && bearers[host] === 1;
    });
    this.#soft = nodes.all.flatMap(({ taints }, node) => {
      const soft = taints.filter(({ effect }) => effect === 'PreferNoSchedule');
      return soft.length === 0 ? [] : [{ node, taints: soft }];
    });
    this.#taintsOf = new Int32Array(nodes.size);
    const known = new Map<string, number>();
    for (const [index, node] of nodes.all.entries()) {
      const serves = node.agent !== undefined;
      const all = refusals(node);
      const name = all.length === 0 ? '' : JSON.stringify([serves, node.unschedulable, all]);
      let taints = known.get(name);
      if (taints === undefined) {
        taints = this.#taints.push({ all, hard: hardTaints(node.taints), serves }) - 1;
        known.set(name, taints);
      }
      this.#taintsOf[index] = taints;
    }
  }

  allowed({ nodeSelector, requiredTerms, tolerations, spread }: Template): Allowed {
    const selected = this.#select(nodeSelector, requiredTerms);
    const tolerated = this.#tolerate(tolerations);
    const labels = spread.flatMap(({ hard, topologyKey }) => (hard ? [topologyKey] : []));
    const possible = labels.length === 0 ? selected : selected.and(this.#nodes.labelled(labels));
    return { selected, now: possible.and(tolerated.now), ever: possible.and(tolerated.ever) };
  }

  /** For topology spread with nodeTaintsPolicy Honor. */
  tolerated(tolerations: readonly Toleration[]): NodeSet {
    return this.#tolerate(tolerations).taints;
  }

  /** The number of untolerated PreferNoSchedule taints by node; undefined without any. */
  reluctance(tolerations: readonly Toleration[]): Int32Array | undefined {
    if (this.#soft.length === 0) return undefined;
    const name = JSON.stringify(tolerations);
    let counts = this.#reluctance.get(name);
    if (counts === undefined) {
      counts = new Int32Array(this.#nodes.size);
      for (const { node, taints } of this.#soft) {
        counts[node] = taints.filter((taint) => !isTolerated(taint, tolerations)).length;
      }
      this.#reluctance.set(name, counts);
    }
    return counts;
  }

  #select(nodeSelector: Template['nodeSelector'], requiredTerms: Template['requiredTerms']): NodeSet {
    const name = JSON.stringify([nodeSelector, requiredTerms]);
    let set = this.#selected.get(name);
    if (set === undefined) {
      set = this.#nodes.withLabels(nodeSelector);
      if (requiredTerms !== undefined) set = set.and(this.#nodes.selectedByAny(requiredTerms));
      this.#selected.set(name, set);
    }
    return set;
  }

  #tolerate(tolerations: readonly Toleration[]): Tolerated {
    const name = JSON.stringify(tolerations);
    let tolerated = this.#tolerated.get(name);
    if (tolerated === undefined) {
      const refused = (taints: readonly Taint[]) => taints.filter((taint) => !isTolerated(taint, tolerations));
      const now = this.#taints.map(({ all }) => refused(all).length === 0);
      // The operator removes the startup taint when the agent is ready.
      const ever = this.#taints.map(({ all, serves }) =>
        refused(all).every(({ key }) => serves && startupTaintKeys.includes(key)),
      );
      const taints = this.#taints.map(({ hard }) => refused(hard).length === 0);
      const where = (holds: boolean[]) =>
        NodeSet.where(this.#nodes.size, (node) => holds[this.#taintsOf[node] as number] as boolean);
      tolerated = { now: where(now), ever: where(ever), taints: where(taints) };
      this.#tolerated.set(name, tolerated);
    }
    return tolerated;
  }
}

/** Kubernetes adds this taint to cordoned nodes. */
const unschedulableTaint: Taint = { key: 'node.kubernetes.io/unschedulable', effect: 'NoSchedule' };

/** NoSchedule and NoExecute taints, and cordons. */
export function refusals({ taints, unschedulable }: Pick<PlannedNode, 'taints' | 'unschedulable'>): Taint[] {
  const own = hardTaints(taints);
  return unschedulable ? [...own, unschedulableTaint] : own;
}
