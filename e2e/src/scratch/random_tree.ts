import assert from 'node:assert/strict';
import {
  closeSync,
  ftruncateSync,
  linkSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  statSync,
  symlinkSync,
  unlinkSync,
  writeSync,
} from 'node:fs';
import { dirname, join } from 'node:path';

/** A file with all its names, or a symlink. */
type Node = { bytes: Buffer } | { target: string };

/** Deterministic numbers in [0, 1): mulberry32. */
export function random(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const maxFileBytes = 600_000;
/** A node that has closed a file may still be publishing it when another one opens it. */
const busyMs = 10_000;

/**
 * Random operations on a folder that no other process changes, each through any of several mounts of one volume, and
 * the tree that must result. Throws at the first difference.
 */
export class RandomTree {
  readonly #mounts: readonly string[];
  readonly #folders: readonly string[];
  readonly #random: () => number;
  /** By path below the mount; a file with two names is one node. */
  readonly #nodes = new Map<string, Node>();
  operations = 0;

  constructor(mounts: readonly string[], folder: string, next: () => number) {
    this.#mounts = mounts;
    this.#random = next;
    this.#folders = ['x', 'y', 'z'].map((name) => join(folder, name));
    const [mount = ''] = mounts;
    for (const one of this.#folders) mkdirSync(join(mount, one), { recursive: true });
  }

  step(): void {
    const steps = [
      ...[this.#create, this.#create, this.#overwrite, this.#append, this.#write, this.#truncate],
      ...[this.#rename, this.#rename, this.#link, this.#symlink, this.#unlink],
      ...[this.#read, this.#read, this.#stat, this.#list, this.#absent],
    ];
    this.#pick(steps).call(this);
    this.operations++;
  }

  /** Compares everything, through every mount. */
  check(): void {
    for (const mount of this.#mounts) {
      for (const folder of this.#folders) this.#compareList(mount, folder);
      for (const path of this.#nodes.keys()) this.#compare(mount, path);
    }
  }

  #pick<T>(values: readonly T[]): T {
    const value = values[Math.floor(this.#random() * values.length)];
    assert.ok(value !== undefined);
    return value;
  }

  #mount(): string {
    return this.#pick(this.#mounts);
  }

  #name(): string {
    return join(this.#pick(this.#folders), `n${Math.floor(this.#random() * 12)}`);
  }

  #file(): [path: string, file: { bytes: Buffer }] | undefined {
    const files = [...this.#nodes].flatMap(([path, node]): [string, { bytes: Buffer }][] =>
      'bytes' in node ? [[path, node]] : [],
    );
    return files.length === 0 ? undefined : this.#pick(files);
  }

  #bytes(): Buffer {
    return Buffer.alloc(1 + Math.floor(this.#random() ** 3 * maxFileBytes), `${this.operations} ${this.#random()} `);
  }

  #create(): void {
    const path = this.#name();
    const at = join(this.#mount(), path);
    if (this.#nodes.has(path)) {
      assert.throws(() => openSync(at, 'wx'), { code: 'EEXIST' });
      return;
    }
    const bytes = this.#bytes();
    this.#use(at, 'wx', (file) => writeAll(file, bytes, 0));
    this.#nodes.set(path, { bytes });
  }

  #overwrite(): void {
    this.#change('w', (_file, file) => {
      const bytes = this.#bytes();
      writeAll(file, bytes, 0);
      return bytes;
    });
  }

  #append(): void {
    this.#change('a', (before, file) => {
      const bytes = this.#bytes();
      writeAll(file, bytes, null);
      return Buffer.concat([before, bytes]).subarray(0, before.length + bytes.length);
    });
  }

  #write(): void {
    this.#change('r+', (before, file) => {
      const bytes = this.#bytes();
      const offset = Math.floor(this.#random() * (before.length + 70_000));
      writeAll(file, bytes, offset);
      const after = Buffer.alloc(Math.max(before.length, offset + bytes.length));
      before.copy(after);
      bytes.copy(after, offset);
      return after;
    });
  }

  #truncate(): void {
    this.#change('r+', (before, file) => {
      const length = Math.floor(this.#random() * (before.length + 70_000));
      ftruncateSync(file, length);
      const after = Buffer.alloc(length);
      before.copy(after, 0, 0, Math.min(length, before.length));
      return after;
    });
  }

  #change(flags: string, change: (before: Buffer, file: number) => Buffer): void {
    const [path, file] = this.#file() ?? [];
    if (path === undefined || file === undefined || file.bytes.length > 4 * maxFileBytes) return;
    this.#use(join(this.#mount(), path), flags, (descriptor) => {
      file.bytes = change(file.bytes, descriptor);
    });
  }

  #rename(): void {
    const [from, to] = [this.#name(), this.#name()];
    const mount = this.#mount();
    const node = this.#nodes.get(from);
    const rename = () => renameSync(join(mount, from), join(mount, to));
    if (node === undefined) {
      assert.throws(rename, { code: 'ENOENT' });
      return;
    }
    whileBusy(rename);
    // Two names of one file: rename does nothing (rename(2)).
    if (this.#nodes.get(to) === node) return;
    this.#nodes.delete(from);
    this.#nodes.set(to, node);
  }

  #link(): void {
    const [from, file] = this.#file() ?? [];
    const to = this.#name();
    if (from === undefined || file === undefined) return;
    const mount = this.#mount();
    const link = () => linkSync(join(mount, from), join(mount, to));
    if (this.#nodes.has(to)) {
      assert.throws(link, { code: 'EEXIST' });
      return;
    }
    whileBusy(link);
    this.#nodes.set(to, file);
  }

  #symlink(): void {
    const path = this.#name();
    const at = join(this.#mount(), path);
    const target = `nowhere ${this.operations}`;
    if (this.#nodes.has(path)) {
      assert.throws(() => symlinkSync(target, at), { code: 'EEXIST' });
      return;
    }
    symlinkSync(target, at);
    this.#nodes.set(path, { target });
  }

  #unlink(): void {
    const path = this.#name();
    const at = join(this.#mount(), path);
    if (this.#nodes.delete(path)) unlinkSync(at);
    else assert.throws(() => unlinkSync(at), { code: 'ENOENT' });
  }

  #read(): void {
    const paths = [...this.#nodes.keys()];
    if (paths.length > 0) this.#compare(this.#mount(), this.#pick(paths));
  }

  #stat(): void {
    const [path, file] = this.#file() ?? [];
    if (path === undefined || file === undefined) return;
    const { size, nlink } = statSync(join(this.#mount(), path));
    const names = [...this.#nodes.values()].filter((node) => node === file).length;
    assert.deepEqual([size, nlink], [file.bytes.length, names], path);
  }

  #list(): void {
    this.#compareList(this.#mount(), this.#pick(this.#folders));
  }

  #absent(): void {
    const path = this.#name();
    if (this.#nodes.has(path)) return;
    assert.throws(() => statSync(join(this.#mount(), path)), { code: 'ENOENT' }, path);
  }

  #compareList(mount: string, folder: string): void {
    const expected = [...this.#nodes.keys()].filter((path) => dirname(path) === folder);
    const found = readdirSync(join(mount, folder)).map((name) => join(folder, name));
    assert.deepEqual(found.sort(), expected.sort(), `the names of ${folder} in ${mount}`);
  }

  #compare(mount: string, path: string): void {
    const node = this.#nodes.get(path);
    assert.ok(node !== undefined);
    const at = join(mount, path);
    if ('target' in node) assert.equal(readlinkSync(at), node.target);
    else {
      const found = readFileSync(at);
      assert.equal(found.length, node.bytes.length, `the length of ${at}`);
      const same = node.bytes.equals(found);
      assert.ok(same, `the bytes of ${at} differ from byte ${same ? 0 : firstDifference(node.bytes, found)} on`);
    }
  }

  #use(path: string, flags: string, body: (file: number) => void): void {
    const file = whileBusy(() => openSync(path, flags));
    try {
      body(file);
    } finally {
      closeSync(file);
    }
  }
}

/** `offset` null: at the end. */
function writeAll(file: number, bytes: Buffer, offset: number | null): void {
  for (let done = 0; done < bytes.length; ) {
    done += writeSync(file, bytes, done, bytes.length - done, offset === null ? null : offset + done);
  }
}

/** Repeats while another node has the file, at most for as long as an operation may take. */
function whileBusy<T>(work: () => T): T {
  for (const begun = Date.now(); ; ) {
    try {
      return work();
    } catch (thrown) {
      if ((thrown as NodeJS.ErrnoException).code !== 'EBUSY' || Date.now() - begun > busyMs) throw thrown;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20);
    }
  }
}

function firstDifference(one: Buffer, other: Buffer): number {
  return one.findIndex((byte, index) => byte !== other[index]);
}
