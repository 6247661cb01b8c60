import type { Amounts, PlannedNode } from './input.ts';

interface Column {
  /** The amounts that pods may have in all, beside pods of DaemonSets. */
  lasting: Float64Array;
  /** The amounts that no pod has now; negative where more was given than there is. */
  free: Float64Array;
}

/** The requests of one pod, ready to be compared with nodes. */
export interface Request {
  columns: readonly { column: Column; amount: number }[];
}

/** Every pod takes one of these. */
const pods = 'pods';

/**
 * NodeResourcesFit: a column of numbers for every resource that a pod asks for. A pod that asks for none of a resource
 * fits also where more of it was given than there is, as the scheduler sees it.
 */
export class Resources {
  readonly #columns = new Map<string, Column>();
  readonly #size: number;

  /** `wanted`: requests of all groups. */
  constructor(nodes: readonly PlannedNode[], wanted: Iterable<Amounts>) {
    this.#size = nodes.length;
    const names = new Set([pods]);
    for (const requests of wanted) for (const name of Object.keys(requests)) names.add(name);
    for (const name of names) {
      const lasting = Float64Array.from(nodes, ({ allocatable }) => allocatable[name] ?? 0);
      this.#columns.set(name, { lasting, free: lasting.slice() });
    }
  }

  /** A pod on a node. `lasting`: it has its room for as long as there is the node. */
  take(node: number, requests: Amounts, lasting: boolean): void {
    for (const [name, column] of this.#columns) {
      const amount = name === pods ? 1 : requests[name];
      if (amount === undefined) continue;
      column.free[node] = (column.free[node] as number) - amount;
      if (lasting) column.lasting[node] = (column.lasting[node] as number) - amount;
    }
  }

  request(requests: Amounts): Request {
    const columns = [...this.#columns].flatMap(([name, column]) => {
      const amount = name === pods ? 1 : (requests[name] ?? 0);
      return amount > 0 ? [{ column, amount }] : [];
    });
    return { columns };
  }

  /** How many such pods each of these nodes takes beside what runs there, at most as many as said; others get 0. */
  slots(nodes: readonly number[], { columns }: Request, most: number): Int32Array {
    const slots = new Int32Array(this.#size);
    for (const node of nodes) slots[node] = most;
    for (const { column, amount } of columns) {
      const { free } = column;
      for (const node of nodes) {
        const fits = Math.floor((free[node] as number) / amount);
        if (fits < (slots[node] as number)) slots[node] = Math.max(0, fits);
      }
    }
    return slots;
  }

  /** True when a node takes such a pod after all others but pods of DaemonSets have gone. */
  fitsEver(node: number, { columns }: Request): boolean {
    for (const { column, amount } of columns) if ((column.lasting[node] as number) < amount) return false;
    return true;
  }

  /** The first resource, by name, of which a node has too little for such a pod; undefined: none. */
  lacking(node: number, requests: Amounts): string | undefined {
    return [...Object.keys(requests).sort(), pods].find((name) => {
      const amount = name === pods ? 1 : (requests[name] ?? 0);
      return amount > 0 && (this.#columns.get(name)?.lasting[node] ?? 0) < amount;
    });
  }
}
