import type { HostPort } from './input.ts';

const everyAddress = '0.0.0.0';

/** NodePorts: two pods of a node cannot have the same port of the same address. */
export class Ports {
  readonly #taken = new Map<number, HostPort[]>();
  /** Of pods that are there as long as the node. */
  readonly #lasting = new Map<number, HostPort[]>();

  take(node: number, ports: readonly HostPort[], lasting: boolean): void {
    if (ports.length === 0) return;
    for (const taken of lasting ? [this.#taken, this.#lasting] : [this.#taken]) {
      taken.set(node, [...(taken.get(node) ?? []), ...ports]);
    }
  }

  /** Of these nodes those where the ports are free. */
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
