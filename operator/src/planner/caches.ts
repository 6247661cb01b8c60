import type { PlannedDataset, PodGroup } from './input.ts';
import type { Nodes } from './nodes.ts';

/** One dataset: what each node has of it, where it has any. Columns, as there may be millions of them. */
interface Bytes {
  size: number;
  node: number[];
  resident: number[];
  /** Bytes that are kept there for it, and that availableBytes is without. */
  pinned: number[];
  /** Nodes to which a group that was planned before brings it. */
  coming: Set<number>;
}

/** Bytes of one group's datasets on the nodes, all together; by node. */
export interface Holding {
  total: number;
  /** Not there now. */
  missing: Float64Array;
  /** Nor coming for others: what the group alone would make the node fetch. */
  toBring: Float64Array;
  /** Available bytes that the node has left to give away. */
  toReserve: Float64Array;
}

/** The caches of all nodes: what is there, what will be, and what there is room for. */
export class Caches {
  readonly #nodes: Nodes;
  readonly #datasets = new Map<string, Bytes>();
  /** By node; what groups that are planned will take is off. */
  readonly available: Float64Array;

  /** Of all datasets only those of the groups matter. */
  constructor(nodes: Nodes, datasets: ReadonlyMap<string, PlannedDataset>, groups: readonly PodGroup[]) {
    this.#nodes = nodes;
    this.available = Float64Array.from(nodes.all, ({ agent }) => agent?.availableBytes ?? 0);
    for (const { datasets: keys } of groups) {
      for (const key of keys) {
        if (!this.#datasets.has(key)) {
          const size = datasets.get(key)?.bytes ?? 0;
          this.#datasets.set(key, { size, node: [], resident: [], pinned: [], coming: new Set() });
        }
      }
    }
    for (const [node, { agent }] of nodes.all.entries()) {
      if (agent === undefined) continue;
      const { residentBytes, pinnedBytes } = agent;
      for (const key in residentBytes) {
        const resident = residentBytes[key] as number;
        this.#copy(key, node, resident, pinnedBytes === undefined ? resident : (pinnedBytes[key] ?? 0));
      }
      for (const key in pinnedBytes) {
        if (residentBytes[key] === undefined) this.#copy(key, node, 0, pinnedBytes[key] as number);
      }
    }
  }

  /** Bytes that count as more than the dataset has are of older revisions. */
  #copy(key: string, node: number, resident: number, pinned: number): void {
    const bytes = this.#datasets.get(key);
    if (bytes === undefined) return;
    bytes.node.push(node);
    bytes.resident.push(Math.min(resident, bytes.size));
    bytes.pinned.push(Math.min(pinned, bytes.size));
  }

  holding(keys: readonly string[]): Holding {
    const datasets = this.#of(keys);
    const total = datasets.reduce((sum, { size }) => sum + size, 0);
    const missing = new Float64Array(this.#nodes.size).fill(total);
    const toBring = missing.slice();
    const toReserve = missing.slice();
    for (const { size, node: nodes, resident, pinned, coming } of datasets) {
      for (let copy = 0; copy < nodes.length; copy++) {
        const node = nodes[copy] as number;
        const here = resident[copy] as number;
        missing[node] = (missing[node] as number) - here;
        if (coming.size > 0 && coming.has(node)) continue;
        toBring[node] = (toBring[node] as number) - here;
        toReserve[node] = (toReserve[node] as number) - (pinned[copy] as number);
      }
      for (const node of coming) {
        toBring[node] = (toBring[node] as number) - size;
        toReserve[node] = (toReserve[node] as number) - size;
      }
    }
    return { total, missing, toBring, toReserve };
  }

  /** Bytes of each dataset that are missing on a node. */
  missing(keys: readonly string[], node: number): Record<string, number> {
    const resident = this.#nodes.at(node).agent?.residentBytes ?? {};
    const entries = [...new Set(keys)].map((key): [string, number] => {
      const size = this.#datasets.get(key)?.size ?? 0;
      return [key, Math.max(0, size - (resident[key] ?? 0))];
    });
    return Object.fromEntries(entries);
  }

  /** These datasets will be on the node, and their bytes are counted for no other. `holding`: of the same datasets, just made. */
  reserve(keys: readonly string[], node: number, { toReserve }: Holding): void {
    this.available[node] = (this.available[node] as number) - (toReserve[node] as number);
    for (const dataset of this.#of(keys)) dataset.coming.add(node);
  }

  #of(keys: readonly string[]): Bytes[] {
    return [...new Set(keys)].map((key) => this.#datasets.get(key) as Bytes);
  }
}

/**
 * True when a node has room for the missing bytes of the datasets; a dataset that misses nothing fits also where too
 * much is taken.
 */
export function hasRoom({ toReserve }: Holding, available: Float64Array, node: number): boolean {
  const needed = toReserve[node] as number;
  return needed <= 0 || needed <= (available[node] as number);
}

/** Of the datasets together, rounded down; of nothing everything is there. */
export function percentOf({ total, missing }: Holding, node: number): number {
  return total === 0 ? 100 : Math.floor(((total - (missing[node] as number)) * 100) / total);
}
