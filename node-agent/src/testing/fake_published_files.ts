import { createHash } from 'node:crypto';
import { HearthError } from '@hearth/common';
import type { PublishedAttributes, PublishedContent, PublishedEntry, PublishedFolder } from '@hearth/engine';

interface Node extends PublishedAttributes {
  contentKey: string;
  target: string;
  node: string;
}

const maxListed = 2;

/** The published tree of one volume: its leader's answers, in pages of two entries. */
export class FakePublishedFiles {
  #last = 0n;
  readonly #nodes = new Map<string, Node>([['', this.#made('folder')]]);
  /** Called before each page of a folder. */
  onList: () => void = () => {};

  /** A file with its folders, also in the place of another one, as a rename puts it. */
  put(path: string, text: string, { node = 'a', mode = 0o644 } = {}): void {
    for (let slash = path.indexOf('/'); slash > 0; slash = path.indexOf('/', slash + 1))
      this.makeFolder(path.slice(0, slash));
    const contentKey = createHash('sha256').update(`${this.#last}${text}`).digest('hex');
    this.#nodes.set(path, { ...this.#made('file'), size: BigInt(text.length), mode, contentKey, node });
  }

  makeFolder(path: string): void {
    if (!this.#nodes.has(path)) this.#nodes.set(path, this.#made('folder'));
  }

  link(path: string, target: string): void {
    this.#nodes.set(path, { ...this.#made('symlink'), target });
  }

  makeFifo(path: string): void {
    this.#nodes.set(path, this.#made('FIFO'));
  }

  remove(path: string): void {
    this.#nodes.delete(path);
  }

  lookUp(path: string): PublishedAttributes {
    const node = this.#nodes.get(path);
    if (node === undefined) throw new HearthError('NotFound', `there is no /${path} in volume kv`);
    return node;
  }

  list(folder: bigint, after: bigint): PublishedFolder {
    this.onList();
    const [path] = [...this.#nodes].find(([, { inode }]) => inode === folder) ?? [];
    if (path === undefined) throw new HearthError('OriginChanged', 'a folder of volume kv is gone');
    const prefix = path === '' ? '' : `${path}/`;
    const inside = [...this.#nodes].filter(
      ([one, { inode }]) =>
        one !== '' && one.startsWith(prefix) && !one.slice(prefix.length).includes('/') && inode > after,
    );
    inside.sort(([, a], [, b]) => Number(a.inode - b.inode));
    const entries = inside.slice(0, maxListed).map(([one, node]): PublishedEntry => {
      const target = Buffer.from(node.target);
      return { ...node, name: Buffer.from(one.slice(prefix.length), 'latin1'), cookie: node.inode, target };
    });
    return { entries, more: inside.length > maxListed };
  }

  contents(inodes: readonly bigint[]): (PublishedContent | undefined)[] {
    return inodes.map((wanted) => [...this.#nodes.values()].find(({ inode, size }) => inode === wanted && size > 0n));
  }

  #made(kind: PublishedAttributes['kind']): Node {
    this.#last++;
    const contentKey = createHash('sha256').update(String(this.#last)).digest('hex');
    const about = { kind, size: 0n, mode: 0o755, modifiedAtNs: 0n, target: '', node: '', contentKey };
    return { ...about, inode: this.#last, version: this.#last };
  }
}
