import type { Expression } from './input.ts';
import { type PodSelector, selects } from './selector.ts';

type Labels = Readonly<Record<string, string>>;

interface Resident {
  labels: Labels;
  node: number;
}

interface Namespace {
  pods: Resident[];
  /** By label: pods by its value. Made for the labels that are asked for. */
  byLabel: Map<string, Map<string, Resident[]>>;
}

/** Which pods are on which nodes, as topology spread counts them. */
export class PodCensus {
  readonly #namespaces = new Map<string, Namespace>();

  /** `namespaces`: those of pods that will be asked for; others are not remembered. */
  constructor(namespaces: Iterable<string>) {
    for (const name of namespaces) this.#namespaces.set(name, { pods: [], byLabel: new Map() });
  }

  add(namespace: string, labels: Labels, node: number): void {
    const known = this.#namespaces.get(namespace);
    if (known === undefined) return;
    const resident = { labels, node };
    known.pods.push(resident);
    for (const [label, pods] of known.byLabel) file(pods, resident, label);
  }

  /**
   * Reports the node of each pod that matches. An empty selector matches no pod, as in the scheduler.
   */
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
    for (const pod of namespace.pods) file(byValue, pod, key);
    namespace.byLabel.set(key, byValue);
  }
  return [...new Set(values)].map((value) => byValue.get(value) ?? []);
}

function file(byValue: Map<string, Resident[]>, pod: Resident, label: string): void {
  const value = pod.labels[label];
  if (value === undefined) return;
  const pods = byValue.get(value);
  if (pods === undefined) byValue.set(value, [pod]);
  else pods.push(pod);
}
