import { expressionHolds } from '../kubernetes/index.ts';
import type { Expression, LabelSelector, Repulsion, RunningPod } from './input.ts';
import { NodeSet } from './node_set.ts';
import type { Nodes } from './nodes.ts';

type Labels = Readonly<Record<string, string>>;

type Resident = { labels: Labels; node: number };

interface Namespace {
  pods: Resident[];
  /** Pods by the value of each label that a selector has named. */
  byLabel: Map<string, Map<string, Resident[]>>;
}

/** Pods by node, as topology spread counts them. */
export class PodCensus {
  readonly #namespaces = new Map<string, Namespace>();

  constructor(namespaces: Iterable<string>) {
    for (const name of namespaces) this.#namespaces.set(name, { pods: [], byLabel: new Map() });
  }

  add(namespace: string, labels: Labels, node: number): void {
    const known = this.#namespaces.get(namespace);
    if (known === undefined) return;
    const resident = { labels, node };
    known.pods.push(resident);
    for (const [label, pods] of known.byLabel) index(pods, resident, label);
  }

  /** Calls `found` for each matching pod. As in the scheduler, an empty selector matches no pod. */
  each(namespace: string, selector: PodSelector, found: (node: number) => void): void {
    const known = this.#namespaces.get(namespace);
    if (known === undefined || selector.nothing || selector.requirements.length === 0) return;
    const narrow = selector.requirements.find(({ operator }) => operator === 'In');
    const candidates = narrow === undefined ? [known.pods] : withValues(known, narrow);
    for (const pods of candidates) {
      for (const pod of pods) if (selects(selector, pod.labels)) found(pod.node);
    }
  }
}

function withValues(namespace: Namespace, { key, values }: Expression): Resident[][] {
  let byValue = namespace.byLabel.get(key);
  if (byValue === undefined) {
    byValue = new Map();
    for (const pod of namespace.pods) index(byValue, pod, key);
    namespace.byLabel.set(key, byValue);
  }
  return [...new Set(values)].map((value) => byValue.get(value) ?? []);
}

function index(byValue: Map<string, Resident[]>, pod: Resident, label: string): void {
  const value = pod.labels[label];
  if (value === undefined) return;
  const pods = byValue.get(value);
  if (pods === undefined) byValue.set(value, [pod]);
  else pods.push(pod);
}

/** A label selector as one list of requirements. */
interface PodSelector {
  /** Every pod matches an empty list. */
  requirements: readonly Expression[];
  /** True without a selector, which matches no pod. */
  nothing: boolean;
}

/** `matchLabelKeys`: labels that must equal those of the pod with `labels`. */
export function podSelector(
  selector: LabelSelector | undefined,
  matchLabelKeys: readonly string[],
  labels: Labels,
): PodSelector {
  if (selector === undefined) return { requirements: [], nothing: true };
  const own = matchLabelKeys.flatMap((key): [string, string][] => {
    const value = labels[key];
    return value === undefined ? [] : [[key, value]];
  });
  const equal = [...Object.entries(selector.matchLabels), ...own];
  return {
    requirements: [
      ...equal.map(([key, value]) => ({ key, operator: 'In', values: [value] })),
      ...selector.matchExpressions,
    ],
    nothing: false,
  };
}

export function selects({ requirements, nothing }: PodSelector, labels: Labels): boolean {
  return !nothing && requirements.every((one) => expressionHolds(one, labels[one.key]));
}

/** The part of InterPodAffinity that running pods cause: nodes closed by required anti-affinity. */
export class Repulsions {
  readonly #nodes: Nodes;
  /** The topology values at which each repulsion holds. */
  readonly #repulsions = new Map<string, { repulsion: Repulsion; values: Set<number> }>();

  constructor(nodes: Nodes) {
    this.#nodes = nodes;
  }

  add(node: number, { repels = [] }: RunningPod): void {
    for (const repulsion of repels) {
      const value = this.#nodes.column(repulsion.topologyKey).of[node] as number;
      if (value < 0) continue;
      const name = JSON.stringify(repulsion);
      const known = this.#repulsions.get(name);
      if (known === undefined) this.#repulsions.set(name, { repulsion, values: new Set([value]) });
      else known.values.add(value);
    }
  }

  refusing(namespace: string, labels: Labels): NodeSet {
    let refused = new NodeSet(this.#nodes.size);
    for (const { repulsion, values } of this.#repulsions.values()) {
      if (repulsion.namespaces?.includes(namespace) === false) continue;
      if (!selects(podSelector(repulsion.selector, [], labels), labels)) continue;
      const { of } = this.#nodes.column(repulsion.topologyKey);
      refused = refused.or(NodeSet.where(this.#nodes.size, (node) => values.has(of[node] as number)));
    }
    return refused;
  }
}
