import type { PlannedDataset, PodGroup } from './input.ts';
import type { Nodes } from './nodes.ts';

/** The copies of one dataset, in columns, since there may be millions of copies. */
interface Bytes {
  size: number;
  node: number[];
  resident: number[];
  /** Pinned bytes, which `availableBytes` excludes. */
  pinned: number[];
  /** Nodes to which the plan of an earlier group brings the dataset. */
  coming: Set<number>;
}

/** Bytes of all datasets of one group, by node. */
export interface Holding {
  total: number;
  missing: Float64Array;
  /** Neither resident nor coming for earlier groups. */
  toBring: Float64Array;
  /** Available bytes that the datasets would take. */
  toReserve: Float64Array;
}

/** Resident, expected and available bytes of all nodes. */
export class Caches {
  readonly #nodes: Nodes;
  readonly #datasets = new Map<string, Bytes>();
  /** By node, less the bytes of planned groups. */
  readonly available: Float64Array;

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

  /** Bytes beyond the size of the dataset belong to older revisions. */
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

  missing(keys: readonly string[], node: number): Record<string, number> {
    const resident = this.#nodes.at(node).agent?.residentBytes ?? {};
    const entries = [...new Set(keys)].map((key): [string, number] => {
      const size = this.#datasets.get(key)?.size ?? 0;
      return [key, Math.max(0, size - (resident[key] ?? 0))];
    });
    return Object.fromEntries(entries);
  }

  /** Plans these datasets onto the node. `holding` must be a fresh result for the same datasets. */
  reserve(keys: readonly string[], node: number, { toReserve }: Holding): void {
    this.available[node] = (this.available[node] as number) - (toReserve[node] as number);
    for (const dataset of this.#of(keys)) dataset.coming.add(node);
  }

  #of(keys: readonly string[]): Bytes[] {
    return [...new Set(keys)].map((key) => this.#datasets.get(key) as Bytes);
  }
}

/** True when a node has room for the missing bytes. A complete dataset fits an overcommitted node, too. */
export function hasRoom({ toReserve }: Holding, available: Float64Array, node: number): boolean {
  const needed = toReserve[node] as number;
  return needed <= 0 || needed <= (available[node] as number);
}

/** Rounded down; 100 for an empty total. */
export function percentOf({ total, missing }: Holding, node: number): number {
  return total === 0 ? 100 : Math.floor(((total - (missing[node] as number)) * 100) / total);
}
