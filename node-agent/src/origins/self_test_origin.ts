import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { lstat, readFile, readlink } from 'node:fs/promises';
import { join } from 'node:path';
import { HearthError } from '@hearth/common';
import type { Location, ManifestRow } from '@hearth/engine';
import { sumsName } from '../selftest/index.ts';
import { digestKey } from './content_key.ts';
import { readFirstByteOfFile } from './first_byte.ts';
import { walkFolders } from './folder_walk.ts';
import type { LocatableEntry, Origin, OriginBase, OriginRevision } from './origin.ts';
import { inPages } from './row_stream.ts';
import { UnusableNames } from './unusable_names.ts';

/**
 * The files built into every agent. A list of digests stands beside the files; digests are checked when listed and
 * identify the content, so separately installed agents have the same revision.
 */
export class SelfTestOrigin implements Origin {
  readonly kind = 'selfTest';
  readonly locatesFreely = true;
  readonly #folder: string;
  #revision = '';

  /** `folder`: absolute. */
  constructor(folder: string) {
    this.#folder = folder;
  }

  describe(): string {
    return 'the built-in files';
  }

  async *list(signal: AbortSignal): AsyncGenerator<ManifestRow[]> {
    const text = await readFile(join(this.#folder, sumsName)).catch((thrown: Error) => {
      throw new HearthError(
        'NotFound',
        `this agent has no built-in files at ${this.#folder} (${thrown.message}); set selfTestDirectory to their folder, or give another source`,
      );
    });
    const sums = parseSums(text.toString());
    sums.set(sumsName, createHash('sha256').update(text).digest('hex'));
    const missing = new Set(sums.keys());
    for await (const page of inPages(this.#rows(sums))) {
      if (signal.aborted) throw new HearthError('Cancelled', 'the listing of the built-in files was cancelled');
      for (const row of page) missing.delete(row.path);
      yield page;
    }
    const [first] = missing;
    if (first !== undefined) throw this.#broken(`${first} is missing`);
    this.#revision = sums.get(sumsName)?.slice(0, 12) ?? '';
  }

  revision(): OriginRevision {
    return { name: this.#revision, warnings: [] };
  }

  base(): OriginBase {
    return { path: this.#folder, below: this.#folder };
  }

  async locate(entries: LocatableEntry[]): Promise<Location[]> {
    return entries.map(({ index, path }) => ({ entry: index, path: `${this.#folder}/${path}`, below: this.#folder }));
  }

  /** The agent reads all files with its own rights, so parts do not differ. */
  partOf(): string {
    return '';
  }

  async readByte(entry: LocatableEntry): Promise<void> {
    for (const location of await this.locate([entry])) await readFirstByteOfFile(location);
  }

  close(): void {}

  async *#rows(sums: ReadonlyMap<string, string>): AsyncGenerator<ManifestRow> {
    for await (const { path, kind } of walkFolders(this.#folder, new UnusableNames('Fail'))) {
      if (kind === 'emptyFolder') yield { path, kind: 'directory', size: 0n };
      else yield await this.#row(path, sums);
    }
  }

  async #row(path: string, sums: ReadonlyMap<string, string>): Promise<ManifestRow> {
    const full = join(this.#folder, path);
    const stats = await lstat(full, { bigint: true });
    if (stats.isSymbolicLink()) return { path, kind: 'symlink', size: 0n, symlinkTarget: await readlink(full) };
    const expected = sums.get(path);
    if (expected === undefined) throw this.#broken(`${path} is not among them`);
    if ((await digestOf(full)) !== expected) throw this.#broken(`${path} has other bytes`);
    const { size } = stats;
    const executable = (stats.mode & 0o111n) !== 0n;
    return {
      path,
      kind: 'file',
      size,
      contentKey: digestKey('self-test', expected, size),
      sourceDigest: expected,
      executable,
    };
  }

  #broken(reason: string): HearthError {
    return new HearthError(
      'Corrupt',
      `the built-in files at ${this.#folder} are not as ${sumsName} there says: ${reason}; install Hearth again on this node`,
    );
  }
}

/** Parses sha256sum's two columns, for names without a backslash or line feed. */
function parseSums(text: string): Map<string, string> {
  const lines = text.split('\n').filter((line) => line !== '');
  return new Map(lines.map((line) => [line.slice(66), line.slice(0, 64)]));
}

async function digestOf(path: string): Promise<string> {
  const hash = createHash('sha256');
  for await (const piece of createReadStream(path)) hash.update(piece as Buffer);
  return hash.digest('hex');
}
