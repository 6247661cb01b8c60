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
  /** Absolute paths that must contain `path`, both as written and with links resolved; undefined: no limit. */
  allowed: readonly string[] | undefined;
  calls: DirectoryCalls;
  /** Revision returned by `revision()` after the listing. */
  revision?: string;
}

/** Revision name of listings with files behind links, each of which has its own location. */
const linkedRevision = 'links';

/**
 * A directory that every agent sees under one path (NFS, hostPath). Content keys: path, times and size. Because the
 * file system may hang, only other processes make calls on it, and each request fails with `DeadlineExceeded` when
 * nothing happens.
 */
export class DirectoryOrigin implements Origin {
  readonly kind = 'directory';
  readonly #tree: Tree;
  readonly #unusableNames: string;
  readonly #calls: DirectoryCalls;
  #revision: OriginRevision;

  constructor({ path, unusableNames, allowed, calls, revision = '' }: DirectoryOriginOptions) {
    if (!isAbsolute(path)) {
      throw new HearthError(
        'InvalidArgument',
        `the directory "${path}" is not an absolute path; every agent must see it under one path, such as /models/llama`,
      );
    }
    this.#tree = { root: resolve(path), allowed };
    this.#unusableNames = unusableNames;
    this.#calls = calls;
    this.#revision = { name: revision, warnings: [] };
  }

  get locatesFreely(): boolean {
    return !this.#isLinked;
  }

  get #isLinked(): boolean {
    return this.#revision.name === linkedRevision;
  }

  describe(): string {
    return this.#tree.root;
  }

  async *list(signal: AbortSignal): AsyncGenerator<ManifestRow[]> {
    const call = { kind: 'list', tree: this.#tree, unusableNames: this.#unusableNames } as const;
    const { warnings, followed } = yield* this.#calls.list(call, signal);
    this.#revision = { name: followed ? linkedRevision : '', warnings };
  }

  revision(): OriginRevision {
    return this.#revision;
  }

  base(signal?: AbortSignal): undefined | Promise<OriginBase & { path: string; below: string }> {
    return this.#isLinked ? undefined : this.#folder(signal);
  }

  async #folder(signal?: AbortSignal): Promise<OriginBase & { path: string; below: string }> {
    const { root, allowed } = this.#tree;
    if (allowed === undefined) return { path: root, below: root };
    return await this.#calls.base({ kind: 'base', tree: this.#tree }, signal);
  }

  async locate(entries: LocatableEntry[], signal?: AbortSignal): Promise<Location[]> {
    if (this.#isLinked) return await this.#locateLinked(entries, signal);
    const { path: root, below } = await this.#folder(signal);
    return entries.map(({ index, path }) => ({ entry: index, path: `${root === '/' ? '' : root}/${path}`, below }));
  }

  /** Leaves out dangling links. */
  async #locateLinked(entries: LocatableEntry[], signal?: AbortSignal): Promise<Location[]> {
    const request = { kind: 'places', tree: this.#tree, paths: entries.map(({ path }) => path) } as const;
    const places = await this.#calls.places(request, signal);
    return entries.flatMap(({ index }, at) => {
      const place = places[at];
      return place === undefined ? [] : [{ entry: index, ...place }];
    });
  }

  /** The agent reads all files with its own rights, so parts do not differ. */
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
