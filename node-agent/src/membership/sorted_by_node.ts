import type { NodeRecord } from './record.ts';

/**
 * Records in the order of their names. A change costs a binary search: agents see every change of a thousand others, and
 * a walk over all of them for each would take each agent a quadratic time.
 */
export class SortedByNode {
  readonly #records: NodeRecord[] = [];

  get records(): readonly NodeRecord[] {
    return this.#records;
  }

  put(record: NodeRecord): void {
    const at = this.#find(record.node);
    this.#records.splice(at, this.#records[at]?.node === record.node ? 1 : 0, record);
  }

  delete(node: string): void {
    const at = this.#find(node);
    if (this.#records[at]?.node === node) this.#records.splice(at, 1);
  }

  /** A copy with one record more, or in place of the one of that name. */
  with(record: NodeRecord): NodeRecord[] {
    const at = this.#find(record.node);
    return this.#records.toSpliced(at, this.#records[at]?.node === record.node ? 1 : 0, record);
  }

  /** Index of the first record whose name is not before this one. */
  #find(node: string): number {
    let [low, high] = [0, this.#records.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#records[middle]?.node ?? '') < node) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
