import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { removeFolder } from './mount_folders.ts';
import type { PublishedRecord, Target } from './published_record.ts';

export type Kind = 'view' | 'fuse';

const fusePrefix = 'fuse-';

/**
 * Paths of mounts for pods: `<directory>/mounts/<manifest>/<view | fuse-dataset>`. The id of a writable volume stands for
 * its manifest, and `volume:` with its name for the dataset.
 */
export class MountPaths {
  readonly #folder: string;

  constructor(directory: string) {
    this.#folder = join(directory, 'mounts');
  }

  of(manifest: string, kind: Kind, dataset: string): string {
    return join(this.#folder, manifest, kind === 'view' ? kind : `${fusePrefix}${dataset}`);
  }

  /** Candidate paths of a record's FUSE mount; agents of the previous release use the second one. */
  fuse({ manifest, dataset }: PublishedRecord): string[] {
    return [this.of(manifest, 'fuse', dataset), join(this.#folder, manifest, 'fuse')];
  }

  /** Undefined for another path. */
  targetAt(path: string): Target | undefined {
    const [manifest = '', name = ''] = path.split('/').slice(-2);
    if (path !== join(this.#folder, manifest, name)) return undefined;
    if (name === 'view' || name === 'fuse') return { path, manifest, dataset: undefined };
    return name.startsWith(fusePrefix) ? { path, manifest, dataset: name.slice(fusePrefix.length) } : undefined;
  }

  /** Folders with current or former mounts. Removes the empty ones that an agent which crashed may have left. */
  async folders(): Promise<string[]> {
    const manifests = (await readdir(this.#folder)).filter((name) => /^(?:[0-9a-f]{32}){1,2}$/.test(name));
    const below = manifests.map(async (manifest) => {
      const names = await readdir(join(this.#folder, manifest)).catch(() => []);
      if (names.length === 0) await removeFolder(join(this.#folder, manifest));
      return names.map((name) => join(this.#folder, manifest, name));
    });
    return (await Promise.all(below)).flat();
  }
}
