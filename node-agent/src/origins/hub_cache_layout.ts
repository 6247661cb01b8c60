import { createHash, randomUUID } from 'node:crypto';
import { mkdir, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { HubSource } from '@hearth/common/generated/hearth/v1/control.ts';
import type { Location, ManifestRow } from '@hearth/engine';
import { digestKey } from './content_key.ts';

const commitName = /^([0-9a-f]{40}|[0-9a-f]{64})$/;

/**
 * Paths of a repository in a cache of huggingface_hub ("Understand caching"): `models--ORG--NAME/refs/REVISION`
 * contains a commit, and `models--ORG--NAME/snapshots/COMMIT/` the files. Plain files replace the library's links into
 * `blobs`.
 */
export class HubCacheLayout {
  readonly #repository: string;
  readonly #reference: string;
  readonly #directory: string;

  /** `directory`: absolute folder of the files with commits, created on demand. */
  constructor({ repoType, repo, revision }: HubSource, directory: string) {
    this.#repository = [`${repoType || 'model'}s`, ...repo.split('/')].join('--');
    // A library request without a revision means main, also for a Dataset pinned to a commit.
    const name = revision === '' || commitName.test(revision) ? 'main' : revision;
    this.#reference = `${this.#repository}/refs/${name}`;
    this.#directory = directory;
  }

  pathOf(commit: string, path: string): string {
    return `${this.#repository}/snapshots/${commit}/${path}`;
  }

  /** The path in the repository; undefined for the file with the commit. */
  inRepository(path: string): string | undefined {
    return path === this.#reference ? undefined : path.split('/').slice(3).join('/');
  }

  referenceRow(commit: string): ManifestRow {
    const sourceDigest = createHash('sha256').update(commit).digest('hex');
    const size = BigInt(commit.length);
    const contentKey = digestKey('hub-reference', sourceDigest, size);
    return { path: this.#reference, kind: 'file', size, contentKey, sourceDigest, validator: '' };
  }

  /** Writes the file with the commit, which every agent can make itself. */
  async locateReference(entry: number, commit: string): Promise<Location> {
    const path = join(this.#directory, commit);
    const partial = `${path}.${randomUUID()}`;
    await mkdir(this.#directory, { recursive: true, mode: 0o700 });
    await writeFile(partial, commit, { mode: 0o600 });
    await rename(partial, path);
    return { entry, path, below: this.#directory };
  }
}
