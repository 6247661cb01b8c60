import type { Amounts, HostPort, PlannedNode } from './input.ts';

interface Column {
  /** Amounts without the pods of DaemonSets. */
  lasting: Float64Array;
  /** Unused amounts; negative for an overcommitted node. */
  free: Float64Array;
}

export interface Request {
  columns: readonly { column: Column; amount: number }[];
}

const pods = 'pods';

/** NodeResourcesFit. As in the scheduler, a pod without a request for a resource fits an overcommitted node. */
export class Resources {
  readonly #columns = new Map<string, Column>();
  readonly #size: number;

  constructor(nodes: readonly PlannedNode[], wanted: Iterable<Amounts>) {
    this.#size = nodes.length;
    const names = new Set([pods]);
    for (const requests of wanted) for (const name of Object.keys(requests)) names.add(name);
    for (const name of names) {
      const lasting = Float64Array.from(nodes, ({ allocatable }) => allocatable[name] ?? 0);
      this.#columns.set(name, { lasting, free: lasting.slice() });
    }
  }

  /** `lasting`: the pod keeps its room as long as the node exists. */
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

  /** How many such pods each of these nodes takes, at most `most`; 0 for other nodes. */
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

  /** True when the node could take the pod once only DaemonSet pods remain. */
  fitsEver(node: number, { columns }: Request): boolean {
    for (const { column, amount } of columns) if ((column.lasting[node] as number) < amount) return false;
    return true;
  }

  lacking(node: number, requests: Amounts): string | undefined {
    return [...Object.keys(requests).sort(), pods].find((name) => {
      const amount = name === pods ? 1 : (requests[name] ?? 0);
      return amount > 0 && (this.#columns.get(name)?.lasting[node] ?? 0) < amount;
    });
  }
}

const everyAddress = '0.0.0.0';

/** NodePorts: two pods of a node cannot share a port of one address. */
export class Ports {
  readonly #taken = new Map<number, HostPort[]>();
  /** Ports of pods that live as long as the node. */
  readonly #lasting = new Map<number, HostPort[]>();

  take(node: number, ports: readonly HostPort[], lasting: boolean): void {
    if (ports.length === 0) return;
    for (const taken of lasting ? [this.#taken, this.#lasting] : [this.#taken]) {
      taken.set(node, [...(taken.get(node) ?? []), ...ports]);
    }
  }

  free(nodes: readonly number[], ports: readonly HostPort[]): readonly number[] {
    return ports.length === 0 ? nodes : nodes.filter((node) => isFree(this.#taken.get(node), ports));
  }

  freeEver(node: number, ports: readonly HostPort[]): boolean {
    return isFree(this.#lasting.get(node), ports);
  }
}

function isFree(taken: readonly HostPort[] = [], ports: readonly HostPort[]): boolean {
  return !ports.some((port) => taken.some((other) => conflict(port, other)));
}

function conflict(a: HostPort, b: HostPort): boolean {
  if (a.port !== b.port || a.protocol !== b.protocol) return false;
  return a.ip === b.ip || a.ip === everyAddress || b.ip === everyAddress;
}
