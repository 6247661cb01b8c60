import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { must, ToolUnavailable, tool } from '@hearth/common/testing';
import { cacheFolder } from '../../../scripts/tools/cache.ts';
import { type ImageContents, writeImage } from './archive.ts';

/** Paths of docker-archives of the images that every cluster has. */
export interface BasicImages {
  /** `local/pause:1`, the sandbox of pods. */
  pause: string;
  /** `local/busybox:1`: a shell and the usual programs, for pods of tests. */
  busybox: string;
  /** `local/etcd:VERSION` */
  etcd: string;
}

export async function basicImages(): Promise<BasicImages> {
  const pause = await cached('pause', [join(import.meta.dirname, 'pause.c')], async ([source = ''], folder) => {
    const program = join(folder, 'pause');
    await must('gcc', '-Os', '-static', '-s', '-o', program, source);
    return { name: 'local/pause:1', programs: { pause: program }, entrypoint: ['/pause'] };
  });
  const shell = '/bin/busybox';
  if (!existsSync(shell)) throw new ToolUnavailable('busybox is not installed; `make setup` as root installs it');
  const libraries = await librariesOf(shell);
  const busybox = await cached('busybox', [shell, ...libraries], async (files) => ({
    name: 'local/busybox:1',
    programs: Object.fromEntries(files.map((path) => [path.slice(1), path])),
    links: Object.fromEntries(
      (await must(shell, '--list'))
        .trim()
        .split('\n')
        .filter((name) => name !== 'busybox')
        .map((name) => [`bin/${name}`, 'busybox']),
    ),
    entrypoint: ['/bin/sh'],
  }));
  const server = await tool('etcd');
  const etcd = await cached('etcd', [server], async () => etcdContents(server, etcdImage(server)));
  return { pause, busybox, etcd };
}

/** The same program under the name that the chart gives it where nothing else is said. */
export async function etcdImageAs(name: string): Promise<string> {
  return await cached(name.replaceAll(/[^\w.]+/g, '-'), [await tool('etcd')], async ([server = '']) =>
    etcdContents(server, name),
  );
}

function etcdContents(server: string, name: string): ImageContents {
  return { name, programs: { 'usr/bin/etcd': server }, entrypoint: ['/usr/bin/etcd'] };
}

/** The folder of a tool is NAME-VERSION-HASH. */
export function etcdImage(program: string): string {
  const version = basename(dirname(program)).split('-')[1]?.replace(/^v/, '');
  return `local/etcd:${version}`;
}

/** Files that the dynamic loader maps for a program, the loader itself included; paths as ldd(1) prints them. */
export async function librariesOf(program: string): Promise<string[]> {
  return [...(await must('ldd', program)).matchAll(/(\/\S+) \(0x/g)].map((match) => match[1] as string);
}

/**
 * An image is made again when a file that it is made of is another, or the way in which it is made. `contents` may
 * put files into its second argument, a folder that is removed afterwards.
 */
export async function cached(
  name: string,
  sources: string[],
  contents: (sources: string[], folder: string) => Promise<ImageContents>,
): Promise<string> {
  const hash = createHash('sha256').update(contents.toString());
  for (const source of [...sources, join(import.meta.dirname, 'archive.ts')]) hash.update(readFileSync(source));
  const path = join(cacheFolder, 'images', `${name}-${hash.digest('hex').slice(0, 12)}.tar`);
  if (existsSync(path)) return path;
  mkdirSync(dirname(path), { recursive: true });
  const folder = mkdtempSync(`${path}.sources.`);
  try {
    await writeImage(path, await contents(sources, folder));
  } finally {
    rmSync(folder, { recursive: true });
  }
  return path;
}
