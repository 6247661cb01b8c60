/** A bit set of node indexes. */
export class NodeSet {
  readonly size: number;
  readonly #words: Uint32Array;

  /** Empty unless `words` is given. */
  constructor(size: number, words = new Uint32Array(Math.ceil(size / 32))) {
    this.size = size;
    this.#words = words;
  }

  static where(size: number, test: (node: number) => boolean): NodeSet {
    const set = new NodeSet(size);
    for (let node = 0; node < size; node++) if (test(node)) set.add(node);
    return set;
  }

  static all(size: number): NodeSet {
    return NodeSet.where(size, () => true);
  }

  add(node: number): void {
    const word = node >>> 5;
    this.#words[word] = ((this.#words[word] as number) | (1 << (node & 31))) >>> 0;
  }

  has(node: number): boolean {
    return (((this.#words[node >>> 5] as number) >>> (node & 31)) & 1) === 1;
  }

  and(other: NodeSet): NodeSet {
    return new NodeSet(
      this.size,
      this.#words.map((word, index) => word & other.#word(index)),
    );
  }

  or(other: NodeSet): NodeSet {
    return new NodeSet(
      this.size,
      this.#words.map((word, index) => word | other.#word(index)),
    );
  }

  without(other: NodeSet): NodeSet {
    return new NodeSet(
      this.size,
      this.#words.map((word, index) => word & ~other.#word(index)),
    );
  }

  #word(index: number): number {
    return this.#words[index] as number;
  }

  indexes(): number[] {
    const found: number[] = [];
    for (let index = 0; index < this.#words.length; index++) {
      for (let word = this.#word(index); word !== 0; word &= word - 1) {
        found.push(index * 32 + 31 - Math.clz32(word & -word));
      }
    }
    return found;
  }
}
