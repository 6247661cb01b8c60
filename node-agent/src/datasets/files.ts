import { HearthError } from '@hearth/common';
import { type Engine, type ManifestEntry, PathFilter } from '@hearth/engine';

const pageEntries = 5_000;

/** Pages of a folder's children, or of all files below it in path order. Reads the next page on demand. */
export async function* entryPages(
  engine: Engine,
  digest: string,
  options: { path: string; recursive: boolean },
): AsyncGenerator<ManifestEntry[]> {
  for (let offset = 0; ; offset += pageEntries) {
    const page = await engine.entries(digest, { ...options, offset, limit: pageEntries });
    if (page.length > 0) yield page;
    if (page.length < pageEntries) return;
  }
}

/** Files of a dataset chosen by patterns. */
export interface Choice {
  /** Undefined: all files. */
  entries: number[] | undefined;
  bytes: bigint;
}

/** Chooses files by `paths`; throws `NotFound` when the patterns match none. */
export async function chooseFiles(
  engine: Engine,
  manifest: { name: string; manifest: string; bytes: bigint },
  paths: readonly string[],
): Promise<Choice> {
  const filter = new PathFilter(paths);
  if (filter.choosesAll) return { entries: undefined, bytes: manifest.bytes };
  const entries: number[] = [];
  let bytes = 0n;
  for await (const page of entryPages(engine, manifest.manifest, { path: '', recursive: true })) {
    for (const entry of page) {
      if (!filter.matches(entry.path)) continue;
      entries.push(entry.index);
      bytes += entry.size;
    }
  }
  if (entries.length > 0) return { entries, bytes };
  throw new HearthError(
    'NotFound',
    `no file of dataset ${manifest.name} matches ${paths.map((path) => `"${path}"`).join(' or ')}; hearth ls ${manifest.name} shows its files`,
  );
}

/** One file by path; throws `NotFound` with the path. */
export async function findFile(
  engine: Engine,
  manifest: { name: string; manifest: string },
  path: string,
): Promise<ManifestEntry> {
  const folder = path.includes('/') ? path.slice(0, path.lastIndexOf('/')) : '';
  try {
    for await (const page of entryPages(engine, manifest.manifest, { path: folder, recursive: false })) {
      const found = page.find((entry) => entry.path === path);
      if (found?.kind === 'file') return found;
      if (found !== undefined)
        throw new HearthError('InvalidArgument', `${path} of dataset ${manifest.name} is a ${found.kind}, not a file`);
    }
  } catch (thrown) {
    if (HearthError.from(thrown).code !== 'NotFound') throw thrown;
  }
  throw new HearthError(
    'NotFound',
    `dataset ${manifest.name} has no file ${path}; hearth ls ${manifest.name} shows its files`,
  );
}
