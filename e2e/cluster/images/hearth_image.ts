import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { must, root } from '@hearth/common/testing';
import { cacheFolder } from '../../../scripts/tools/cache.ts';
import { lock } from '../../../scripts/tools/lock.ts';
import { ensureBaseImages, nodeVersion } from './base_images.ts';
import { buildSettings } from './build_settings.ts';
import { Buildah } from './buildah.ts';
import { ImageSources } from './image_sources.ts';

/** The image of this checkout, and of another commit, as pods name them. */
export const hearthImageName = 'local/hearth:dev';
export const previousImageName = 'local/hearth:previous';

export interface HearthImage {
  /** Path of a docker-archive. */
  archive: string;
  /** Bytes of the archive when compressed by gzip, about what a registry stores. */
  compressedBytes: number;
}

/** Archives kept of other versions of the sources. */
const kept = 2;
/** Every change of the sources adds some tens of MiB to the store of steps. */
const storeLimitBytes = 8 * 2 ** 30;

let built: Promise<HearthImage> | undefined;

/**
 * Builds the Dockerfile of this checkout, once in a process. When none of its inputs has changed, the archive of before
 * is taken; otherwise steps whose inputs have not. Needs root, debootstrap and buildah.
 */
export function hearthImage(): Promise<HearthImage> {
  built ??= buildUnlessKept();
  return built;
}

/** Pushes it to a registry under the name that the chart takes from there; gives that name. */
export async function publishHearthImage(registry: string, tag: string, plain: boolean): Promise<string> {
  const { archive } = await hearthImage();
  const name = `${registry.replace(/\/+$/, '')}/hearth:${tag}`;
  const folder = join(cacheFolder, 'hearth-image');
  await using _ = await lock(join(folder, '.lock'));
  await new Buildah(folder).publish(archive, name, { plain });
  return name;
}

/** The version that the chart installs. */
export function hearthVersion(): string {
  return JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).version;
}

/**
 * Builds the Dockerfile of a commit of the clone, unless the archive of before is there; its path. The chart of the commit
 * is put into `charts`, which is replaced.
 */
export async function previousImage(commit: string, charts: string): Promise<string> {
  const folder = imageFolder();
  await using _ = await lock(join(folder, '.lock'));
  const sources = join(folder, 'sources');
  const archive = join(folder, `previous-${commit.slice(0, 12)}.tar`);
  for (const path of [sources, charts]) rmSync(path, { recursive: true, force: true });
  try {
    mkdirSync(sources, { recursive: true });
    await must('sh', '-ec', `git -C "$1" archive "$2" | tar -x -C "$3"`, 'sh', root, commit, sources);
    cpSync(join(sources, 'charts'), charts, { recursive: true });
    if (!existsSync(archive)) await build(folder, sources, archive, previousImageName);
  } finally {
    rmSync(sources, { recursive: true, force: true });
  }
  return archive;
}

function imageFolder(): string {
  const folder = join(cacheFolder, 'hearth-image');
  mkdirSync(folder, { recursive: true });
  return folder;
}

async function buildUnlessKept(): Promise<HearthImage> {
  const folder = imageFolder();
  await using _ = await lock(join(folder, '.lock'));
  using sources = await ImageSources.copy(root, join(folder, 'sources'));
  const archive = join(folder, `hearth-${sources.digest}.tar`);
  const record = `${archive}.size`;
  if (!existsSync(archive) || !existsSync(record)) {
    await build(folder, sources.folder, archive, hearthImageName);
    const compressed = await must('sh', '-c', 'gzip -c "$1" | wc -c', 'sh', archive);
    writeFileSync(record, compressed.trim());
    removeOld(folder);
  }
  const now = new Date();
  utimesSync(archive, now, now);
  return { archive, compressedBytes: Number(readFileSync(record, 'utf8')) };
}

async function build(folder: string, sources: string, archive: string, name: string): Promise<void> {
  console.error(`building the image ${name} (some minutes the first time)`);
  const store = new Buildah(folder);
  await store.tidy(storeLimitBytes);
  await ensureBaseImages(store);
  const own = `localhost/${name.replace(/^local\//, '')}`;
  await store.build(sources, own, {
    args: { NODE_VERSION: nodeVersion() },
    volumes: buildSettings(folder),
  });
  rmSync(`${archive}.new`, { force: true });
  await store.save(own, `${archive}.new`, name);
  renameSync(`${archive}.new`, archive);
}

function removeOld(folder: string): void {
  const archives = readdirSync(folder).filter((name) => /^hearth-.*\.tar$/.test(name));
  const age = (name: string) => statSync(join(folder, name)).mtimeMs;
  for (const name of archives.sort((a, b) => age(b) - age(a)).slice(kept + 1)) {
    rmSync(join(folder, name));
    rmSync(join(folder, `${name}.size`), { force: true });
  }
}
