import { expressionHolds } from '../kubernetes/index.ts';
import type { Expression, NodeSelectorTerm, PlannedNode } from './input.ts';
import { NodeSet } from './node_set.ts';

export const hostnameLabel = 'kubernetes.io/hostname';

/** One label of all nodes, as indexes into its values. */
export interface LabelColumn {
  /** By node; -1 without the label. */
  of: Int32Array;
  values: readonly string[];
}

/**
 * The nodes, sorted by name, and the nodes that each selector selects. Caches selections, so that groups with equal
 * selectors share them.
 */
export class Nodes {
  readonly all: readonly PlannedNode[];
  readonly #indexes = new Map<string, number>();
  readonly #columns = new Map<string, LabelColumn>();
  readonly #expressions = new Map<string, NodeSet>();

  constructor(nodes: readonly PlannedNode[]) {
    this.all = [...nodes].sort((a, b) => (a.name < b.name ? -1 : 1));
    for (const [index, { name }] of this.all.entries()) this.#indexes.set(name, index);
  }

  get size(): number {
    return this.all.length;
  }

  at(index: number): PlannedNode {
    return this.all[index] as PlannedNode;
  }

  indexOf(name: string): number | undefined {
    return this.#indexes.get(name);
  }

  planned({ planned }: { planned: readonly string[] }): number[] {
    return [...new Set(planned)].flatMap((name) => this.#indexes.get(name) ?? []);
  }

  names(indexes: readonly number[]): string[] {
    return indexes.map((index) => this.at(index).name);
  }

  column(label: string): LabelColumn {
    const known = this.#columns.get(label);
    if (known !== undefined) return known;
    const of = new Int32Array(this.size).fill(-1);
    const indexes = new Map<string, number>();
    for (const [node, { labels }] of this.all.entries()) {
      const value = labels[label];
      if (value === undefined) continue;
      const index = indexes.get(value) ?? indexes.size;
      indexes.set(value, index);
      of[node] = index;
    }
    const column = { of, values: [...indexes.keys()] };
    this.#columns.set(label, column);
    return column;
  }

  labelled(labels: readonly string[]): NodeSet {
    return labels
      .map((key) => this.#where({ key, operator: 'Exists', values: [] }))
      .reduce((a, b) => a.and(b), NodeSet.all(this.size));
  }

  /** A term without expressions selects no node. */
  selectedByAny(terms: readonly NodeSelectorTerm[]): NodeSet {
    return terms.map((term) => this.selectedBy(term)).reduce((a, b) => a.or(b), new NodeSet(this.size));
  }

  selectedBy({ matchExpressions, matchFields }: NodeSelectorTerm): NodeSet {
    const parts = [
      ...matchExpressions.map((expression) => this.#where(expression)),
      ...matchFields.map((expression) => this.#whereField(expression)),
    ];
    return parts.length === 0 ? new NodeSet(this.size) : parts.reduce((a, b) => a.and(b));
  }

  withLabels(labels: Readonly<Record<string, string>>): NodeSet {
    return Object.entries(labels)
      .map(([key, value]) => this.#where({ key, operator: 'In', values: [value] }))
      .reduce((a, b) => a.and(b), NodeSet.all(this.size));
  }

  #where(expression: Expression): NodeSet {
    const name = JSON.stringify([expression.key, expression.operator, expression.values]);
    const known = this.#expressions.get(name);
    if (known !== undefined) return known;
    const { of, values } = this.column(expression.key);
    const holds = values.map((value) => expressionHolds(expression, value));
    const without = expressionHolds(expression, undefined);
    const set = NodeSet.where(this.size, (node) => {
      const value = of[node] as number;
      return value < 0 ? without : (holds[value] as boolean);
    });
    this.#expressions.set(name, set);
    return set;
  }

  /** Kubernetes allows metadata.name alone, with these operators and one value. */
  #whereField({ key, operator, values }: Expression): NodeSet {
    const [name] = values;
    const valid = key === 'metadata.name' && values.length === 1 && (operator === 'In' || operator === 'NotIn');
    if (!valid || name === undefined) return new NodeSet(this.size);
    const set = new NodeSet(this.size);
    const index = this.#indexes.get(name);
    if (index !== undefined) set.add(index);
    return operator === 'In' ? set : NodeSet.all(this.size).without(set);
  }
}
