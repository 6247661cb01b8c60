/** A set of nodes of one cluster, by their indexes: 32 to a word, so that sets are intersected word by word. */
export class NodeSet {
  readonly size: number;
  readonly #words: Uint32Array;

  /** Empty; `size` is the number of nodes that there are. */
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
    const words = this.#words.slice();
    for (let index = 0; index < words.length; index++) words[index] = (words[index] as number) & other.#word(index);
    return new NodeSet(this.size, words);
  }

  or(other: NodeSet): NodeSet {
    const words = this.#words.slice();
    for (let index = 0; index < words.length; index++) words[index] = (words[index] as number) | other.#word(index);
    return new NodeSet(this.size, words);
  }

  without(other: NodeSet): NodeSet {
    const words = this.#words.slice();
    for (let index = 0; index < words.length; index++) words[index] = (words[index] as number) & ~other.#word(index);
    return new NodeSet(this.size, words);
  }

  #word(index: number): number {
    return this.#words[index] as number;
  }

  /** Ascending. */
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
