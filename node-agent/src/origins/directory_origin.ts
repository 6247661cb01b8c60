import { isAbsolute, resolve } from 'node:path';
import { HearthError } from '@hearth/common';
import type { Location, ManifestRow } from '@hearth/engine';
import type { DirectoryCalls } from './directory_calls.ts';
import type { Tree } from './directory_tree.ts';
import type { LocatableEntry, Origin, OriginBase, OriginRevision } from './origin.ts';

export interface DirectoryOriginOptions {
  /** Absolute. */
  path: string;
  unusableNames: string;
  /** Absolute paths below which `path` must lie, as it is written and with symbolic links resolved; undefined: everywhere. */
  allowed: readonly string[] | undefined;
  calls: DirectoryCalls;
}

/**
 * A directory that every agent sees under one path (NFS, hostPath). Content keys: path, times and size. The file system
 * may hang: only other processes make calls on it, and each question ends with `DeadlineExceeded` when nothing comes.
 */
export class DirectoryOrigin implements Origin {
  readonly kind = 'directory';
  readonly locatesFreely = true;
  readonly #tree: Tree;
  readonly #unusableNames: string;
  readonly #calls: DirectoryCalls;
  #warnings: string[] = [];

  constructor({ path, unusableNames, allowed, calls }: DirectoryOriginOptions) {
    if (!isAbsolute(path)) {
      throw new HearthError(
        'InvalidArgument',
        `the directory "${path}" is not an absolute path; every agent must see it under one path, such as /models/llama`,
      );
    }
    this.#tree = { root: resolve(path), allowed };
    this.#unusableNames = unusableNames;
    this.#calls = calls;
  }

  describe(): string {
    return this.#tree.root;
  }

  async *list(signal: AbortSignal): AsyncGenerator<ManifestRow[]> {
    const call = { kind: 'list', tree: this.#tree, unusableNames: this.#unusableNames } as const;
    this.#warnings = yield* this.#calls.list(call, signal);
  }

  revision(): OriginRevision {
    return { name: '', warnings: this.#warnings };
  }

  async base(signal?: AbortSignal): Promise<OriginBase & { path: string; below: string }> {
    const { root, allowed } = this.#tree;
    if (allowed === undefined) return { path: root, below: root };
    return await this.#calls.base({ kind: 'base', tree: this.#tree }, signal);
  }

  async locate(entries: LocatableEntry[], signal?: AbortSignal): Promise<Location[]> {
    const { path: root, below } = await this.base(signal);
    return entries.map(({ index, path }) => ({ entry: index, path: `${root === '/' ? '' : root}/${path}`, below }));
  }

  /** Read by the agent itself, which has no other rights from file to file. */
  partOf(): string {
    return '';
  }

  async readByte(entry: LocatableEntry, signal?: AbortSignal): Promise<void> {
    for (const location of await this.locate([entry], signal)) {
      await this.#calls.readByte({ kind: 'readByte', root: this.#tree.root, location }, signal);
    }
  }

  close(): void {}
}
